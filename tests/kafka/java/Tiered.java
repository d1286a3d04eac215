import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Fills tiered topics, waits until nothing moves, and writes what the broker answers to ListOffsets, a line of JSON each.
 *
 * moved: local segments go away after their copy · kept: they stay · fresh: nothing is copied yet · trimmed: records
 * deleted into the remote part · expired: the first remote segments are deleted by their size · plain: not tiered.
 */
public final class Tiered {
    private static final int RECORDS = 120;

    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0];
        Map<String, Map<String, String>> topics = new LinkedHashMap<>();
        topics.put("moved", tiered(Map.of("local.retention.bytes", "1")));
        topics.put("kept", tiered(Map.of()));
        topics.put("fresh", tiered(Map.of("local.retention.bytes", "1")));
        topics.put("trimmed", tiered(Map.of("local.retention.bytes", "1")));
        topics.put("expired", tiered(Map.of("local.retention.bytes", "1", "retention.bytes", "6000")));
        topics.put("plain", Map.of("internal.segment.bytes", "3000"));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers));
             PrintWriter out = new PrintWriter(arguments[1], StandardCharsets.UTF_8)) {
            admin.createTopics(topics.entrySet().stream()
                .map(topic -> new NewTopic(topic.getKey(), 1, (short) 1).configs(topic.getValue())).toList()).all().get();
            produce(servers, topics);
            await(admin, topics);
            long local = answers(admin, topics, OffsetSpec.earliestLocal()).get("trimmed").offset();
            var deleted = Map.of(new TopicPartition("trimmed", 0), RecordsToDelete.beforeOffset(local / 2 + 1));
            admin.deleteRecords(deleted).all().get();
            await(admin, topics);
            Map<String, OffsetSpec> questions = new LinkedHashMap<>();
            questions.put("earliest", OffsetSpec.earliest());
            questions.put("earliest-local", OffsetSpec.earliestLocal());
            questions.put("latest-tiered", OffsetSpec.latestTiered());
            questions.put("earliest-pending-upload", OffsetSpec.earliestPendingUpload());
            questions.put("latest", OffsetSpec.latest());
            ObjectMapper json = new ObjectMapper();
            for (Map.Entry<String, OffsetSpec> question : questions.entrySet()) {
                for (var answer : answers(admin, topics, question.getValue()).entrySet()) {
                    Map<String, Object> line = new LinkedHashMap<>();
                    line.put("topic", answer.getKey());
                    line.put("at", question.getKey());
                    line.put("offset", answer.getValue().offset());
                    line.put("leader_epoch", answer.getValue().leaderEpoch().orElse(null));
                    out.println(json.writeValueAsString(line));
                }
            }
        }
    }

    private static Map<String, String> tiered(Map<String, String> settings) {
        Map<String, String> all = new HashMap<>(settings);
        all.put("remote.storage.enable", "true");
        all.put("retention.ms", "-1");
        all.put("internal.segment.bytes", "3000");
        all.put("index.interval.bytes", "500");
        all.put("file.delete.delay.ms", "0");
        return all;
    }

    private static void produce(String servers, Map<String, Map<String, String>> topics) throws Exception {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", servers, "linger.ms", "0"));
        settings.put("batch.size", "0");
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int i = 0; i < RECORDS; i++) {
                for (String topic : topics.keySet()) {
                    if (i < 3 || !topic.equals("fresh")) {
                        byte[] value = ("value " + i + " ").repeat(12).getBytes(StandardCharsets.UTF_8);
                        producer.send(new ProducerRecord<>(topic, 0, 1_700_000_000_000L + i, null, value)).get();
                    }
                }
            }
        }
    }

    /** Waits until copies and deletions have ended: the answers are the same for three seconds, and something moved. */
    private static void await(Admin admin, Map<String, Map<String, String>> topics) throws Exception {
        List<Object> before = List.of();
        long since = System.nanoTime();
        long end = System.nanoTime() + 60_000_000_000L;
        while (System.nanoTime() < end) {
            List<Object> now = List.of(
                offsets(admin, topics, OffsetSpec.earliest()),
                offsets(admin, topics, OffsetSpec.earliestLocal()),
                offsets(admin, topics, OffsetSpec.latestTiered()));
            boolean moved = offsets(admin, topics, OffsetSpec.earliestLocal()).get("moved") > 0;
            if (!now.equals(before) || !moved) {
                before = now;
                since = System.nanoTime();
            } else if (System.nanoTime() - since > 3_000_000_000L) {
                return;
            }
            Thread.sleep(200);
        }
        throw new IllegalStateException("segments are still moving: " + before);
    }

    private static Map<String, Long> offsets(Admin admin, Map<String, Map<String, String>> topics, OffsetSpec question)
            throws Exception {
        Map<String, Long> offsets = new HashMap<>();
        answers(admin, topics, question).forEach((topic, answer) -> offsets.put(topic, answer.offset()));
        return offsets;
    }

    private static Map<String, ListOffsetsResultInfo> answers(
            Admin admin, Map<String, Map<String, String>> topics, OffsetSpec question) throws Exception {
        Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
        topics.keySet().forEach(topic -> asked.put(new TopicPartition(topic, 0), question));
        Map<String, ListOffsetsResultInfo> answers = new LinkedHashMap<>();
        admin.listOffsets(asked).all().get().forEach((partition, answer) -> answers.put(partition.topic(), answer));
        return answers;
    }
}
