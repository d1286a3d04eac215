import java.io.FileInputStream;
import java.io.InputStream;
import java.util.Properties;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import kafka.tools.StorageTool;
import org.apache.kafka.common.utils.Time;

/**
 * One node, broker and controller in this JVM. Formats its directories, starts, says "started", and stops in good
 * order when its stdin ends: also when the process that started it has gone.
 */
public final class Broker {
    public static void main(String[] arguments) throws Exception {
        String file = arguments[0];
        String clusterId = arguments[1];
        String[] format = {"format", "--ignore-formatted", "--standalone", "--cluster-id=" + clusterId, "-c", file};
        if (StorageTool.execute(format, System.err) != 0) {
            System.exit(1);
        }
        Properties properties = new Properties();
        try (InputStream in = new FileInputStream(file)) {
            properties.load(in);
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
