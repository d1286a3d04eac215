import java.io.FileInputStream;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import kafka.tools.StorageTool;
import org.apache.kafka.common.utils.Time;

/**
 * One node, broker and controller in this JVM, or a broker alone. Formats its directories, starts, says "started", and stops in good
 * order when its stdin ends: also when the process that started it has gone.
 */
public final class Broker {
    public static void main(String[] arguments) throws Exception {
        String file = arguments[0];
        String clusterId = arguments[1];
        Properties properties = new Properties();
        try (InputStream in = new FileInputStream(file)) {
            properties.load(in);
        }
        List<String> format = new ArrayList<>(List.of("format", "--ignore-formatted", "--cluster-id=" + clusterId, "-c", file));
        if (properties.getProperty("process.roles").contains("controller")) {
            format.add("--standalone");
        }
        if (StorageTool.execute(format.toArray(new String[0]), System.err) != 0) {
            System.exit(1);
        }
        KafkaRaftServer server = new KafkaRaftServer(KafkaConfig.fromProps(properties), Time.SYSTEM);
        server.startup();
        System.out.println("started");
        while (System.in.read() >= 0) {
            continue;
        }
        server.shutdown();
        System.exit(0);
    }
}
