import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;

/**
 * Writes what the broker answers to ListOffsets, a line of JSON for every partition that is not of Kafka's own topics,
 * isolation level and question: "earliest", "latest", "max-timestamp" and every timestamp that is named.
 */
public final class ListOffsets {
    public static void main(String[] arguments) throws Exception {
        Map<String, OffsetSpec> questions = new LinkedHashMap<>();
        questions.put("earliest", OffsetSpec.earliest());
        questions.put("latest", OffsetSpec.latest());
        questions.put("max-timestamp", OffsetSpec.maxTimestamp());
        for (String timestamp : Arrays.asList(arguments).subList(2, arguments.length)) {
            questions.put(timestamp, OffsetSpec.forTimestamp(Long.parseLong(timestamp)));
        }
        ObjectMapper json = new ObjectMapper();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]));
             PrintWriter out = new PrintWriter(arguments[1], StandardCharsets.UTF_8)) {
            var topics = admin.describeTopics(admin.listTopics().names().get()).allTopicNames().get();
            for (IsolationLevel level : IsolationLevel.values()) {
                for (Map.Entry<String, OffsetSpec> question : questions.entrySet()) {
                    Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
                    for (TopicDescription topic : topics.values()) {
                        for (TopicPartitionInfo partition : topic.partitions()) {
                            asked.put(new TopicPartition(topic.name(), partition.partition()), question.getValue());
                        }
                    }
                    var answers = admin.listOffsets(asked, new ListOffsetsOptions(level)).all().get();
                    for (Map.Entry<TopicPartition, ListOffsetsResultInfo> answer : answers.entrySet()) {
                        Map<String, Object> line = new LinkedHashMap<>();
                        line.put("topic", answer.getKey().topic());
                        line.put("partition", answer.getKey().partition());
                        line.put("isolation_level", level.toString());
                        line.put("at", question.getKey());
                        line.put("offset", answer.getValue().offset());
                        line.put("timestamp", answer.getValue().timestamp());
                        line.put("leader_epoch", answer.getValue().leaderEpoch().orElse(null));
                        out.println(json.writeValueAsString(line));
                    }
                }
            }
        }
    }
}
