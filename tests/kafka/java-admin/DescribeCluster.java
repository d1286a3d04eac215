import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;

/** Creates topics, and writes what the Admin API then says to a file, as JSON. Arguments: servers, file, topics. */
public final class DescribeCluster {
    public static void main(String[] arguments) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            for (int i = 2; i < arguments.length; i++) {
                admin.createTopics(List.of(new NewTopic(arguments[i], 1, (short) 1))).all().get();
            }
            new ObjectMapper().writeValue(new File(arguments[1]), new Answers(admin).settled());
        }
    }
}
