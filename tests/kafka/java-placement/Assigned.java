import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import org.apache.kafka.admin.AdminUtils;
import org.apache.kafka.admin.BrokerMetadata;

/** For each line "partitions factor start broker:rack ..." (rack "-" for none) the replicas of each partition. */
public class Assigned {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            List<BrokerMetadata> brokers = new ArrayList<>();
            for (int n = 3; n < words.length; n++) {
                String[] parts = words[n].split(":");
                Optional<String> rack = parts[1].equals("-") ? Optional.empty() : Optional.of(parts[1]);
                brokers.add(new BrokerMetadata(Integer.parseInt(parts[0]), rack));
            }
            int partitions = Integer.parseInt(words[0]);
            var made = AdminUtils.assignReplicasToBrokers(
                brokers, partitions, Integer.parseInt(words[1]), Integer.parseInt(words[2]), 0);
            for (int partition = 0; partition < partitions; partition++) {
                String ids = made.get(partition).stream().map(String::valueOf).collect(Collectors.joining(","));
                out.append(partition == 0 ? "" : " ").append(ids);
            }
            out.append('\n');
        }
        System.out.print(out);
    }
}
