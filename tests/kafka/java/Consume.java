import com.fasterxml.jackson.core.JsonEncoding;
import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.File;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Writes every record of every topic that is not Kafka's own, a line of JSON each, from beginning to end as a consumer
 * of that isolation level sees them; and last, a line for every partition with these two offsets.
 */
public final class Consume {
    private static final long GIVE_UP_MS = 60_000;

    public static void main(String[] arguments) throws IOException {
        for (int i = 1; i < arguments.length; i += 2) {
            consume(arguments[0], arguments[i], new File(arguments[i + 1]));
        }
    }

    private static void consume(String servers, String isolationLevel, File target) throws IOException {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", servers);
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("isolation.level", isolationLevel);
        settings.put("enable.auto.commit", "false");
        settings.put("max.poll.records", "5000");
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
             JsonGenerator out = new JsonFactory().createGenerator(target, JsonEncoding.UTF8)) {
            out.setRootValueSeparator(null);
            List<TopicPartition> partitions = new ArrayList<>();
            for (Map.Entry<String, List<PartitionInfo>> topic : consumer.listTopics().entrySet()) {
                if (!topic.getKey().startsWith("__")) {
                    topic.getValue().forEach(p -> partitions.add(new TopicPartition(p.topic(), p.partition())));
                }
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> beginning = consumer.beginningOffsets(partitions);
            Map<TopicPartition, Long> end = consumer.endOffsets(partitions);
            long giveUp = System.currentTimeMillis() + GIVE_UP_MS;
            while (partitions.stream().anyMatch(p -> consumer.position(p) < end.get(p))) {
                if (System.currentTimeMillis() > giveUp) {
                    throw new IllegalStateException("the end is not reached within " + GIVE_UP_MS + " ms");
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    write(out, record);
                }
            }
            for (TopicPartition partition : partitions) {
                out.writeStartObject();
                out.writeStringField("partition_of", partition.topic());
                out.writeNumberField("partition", partition.partition());
                out.writeNumberField("beginning", beginning.get(partition));
                out.writeNumberField("end", end.get(partition));
                out.writeEndObject();
                out.writeRaw('\n');
            }
        }
    }

    private static void write(JsonGenerator out, ConsumerRecord<byte[], byte[]> record) throws IOException {
        out.writeStartObject();
        out.writeStringField("topic", record.topic());
        out.writeNumberField("partition", record.partition());
        out.writeNumberField("offset", record.offset());
        out.writeNumberField("timestamp", record.timestamp());
        out.writeStringField("timestamp_type", record.timestampType().toString());
        writeBytes(out, "key", record.key());
        writeBytes(out, "value", record.value());
        out.writeArrayFieldStart("headers");
        for (Header header : record.headers()) {
            out.writeStartArray();
            out.writeString(header.key());
            if (header.value() == null) {
                out.writeNull();
            } else {
                out.writeBinary(header.value());
            }
            out.writeEndArray();
        }
        out.writeEndArray();
        Optional<Integer> epoch = record.leaderEpoch();
        if (epoch.isPresent()) {
            out.writeNumberField("leader_epoch", epoch.get());
        } else {
            out.writeNullField("leader_epoch");
        }
        out.writeEndObject();
        out.writeRaw('\n');
    }

    private static void writeBytes(JsonGenerator out, String name, byte[] bytes) throws IOException {
        if (bytes == null) {
            out.writeNullField(name);
        } else {
            out.writeBinaryField(name, bytes);
        }
    }
}
