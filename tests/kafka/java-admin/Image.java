import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.TopicImage;
import org.apache.kafka.metadata.BrokerRegistration;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/** Reads a record of the metadata in hex from each line. Prints the image of the cluster after an empty line, and its end. */
public final class Image {
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        MetadataImage image = MetadataImage.EMPTY;
        long offset = 0;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.isEmpty()) {
                print(image);
                image = MetadataImage.EMPTY;
                offset = 0;
                continue;
            }
            ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(line));
            ApiMessageAndVersion record = MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(bytes), bytes.remaining());
            MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
            delta.replay(record.message());
            image = delta.apply(new MetadataProvenance(offset++, 1, 1, true));
        }
        OUT.flush();
    }

    private static void print(MetadataImage image) {
        for (TopicImage topic : new TreeMap<>(image.topics().topicsByName()).values()) {
            OUT.println("topic " + topic.name() + " " + topic.id());
            for (Map.Entry<Integer, PartitionRegistration> entry : new TreeMap<>(topic.partitions()).entrySet()) {
                PartitionRegistration found = entry.getValue();
                OUT.println("partition " + topic.id() + " " + entry.getKey() + " " + found.leader + " " + found.leaderEpoch
                    + " " + found.partitionEpoch + " " + list(found.replicas) + " " + list(found.isr) + " "
                    + list(found.removingReplicas) + " " + list(found.addingReplicas) + " "
                    + String.join(",", Arrays.stream(found.directories).map(Object::toString).toList()) + " "
                    + found.leaderRecoveryState.value() + " " + list(found.elr) + " " + list(found.lastKnownElr));
            }
        }
        Map<String, String> settings = new TreeMap<>();
        image.configs().resourceData().forEach((resource, values) -> values.data().forEach((name, value) ->
            settings.put(resource.type().id() + " " + resource.name() + " " + name, value)));
        settings.forEach((name, value) -> OUT.println("setting " + name + " " + value));
        for (BrokerRegistration broker : new TreeMap<>(image.cluster().brokers()).values()) {
            List<String> points = broker.listeners().values().stream()
                .map(point -> point.listener() + "//" + point.host() + ":" + point.port()).sorted().toList();
            OUT.println("broker " + broker.id() + " " + broker.epoch() + " " + broker.incarnationId() + " "
                + String.join(",", points) + " " + broker.rack().orElse("-") + " " + broker.fenced() + " "
                + broker.inControlledShutdown() + " "
                + String.join(",", broker.directories().stream().map(Object::toString).sorted().toList()));
        }
        new TreeMap<>(image.features().finalizedVersions()).forEach((name, level) ->
            OUT.println("feature " + name + " " + level));
        image.features().metadataVersion().ifPresent(version ->
            OUT.println("feature metadata.version " + version.featureLevel()));
        OUT.println();
    }

    private static String list(int[] numbers) {
        return String.join(",", Arrays.stream(numbers).mapToObj(Integer::toString).toList());
    }
}
