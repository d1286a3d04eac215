package org.apache.kafka.server.log.remote.metadata.storage;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;

/**
 * Answers what a broker would: a line of JSON in, with the remote segments of a log in the order of their copies and the
 * leader epoch of each of its offsets; a line out, with the number of the segment that has the offset, -1 without one,
 * and the highest copied offset of each epoch. It is in Kafka's package because the methods are not public.
 */
public final class RemoteCache {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        TopicIdPartition place = new TopicIdPartition(Uuid.randomUuid(), new TopicPartition("orders", 0));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode given = json.readTree(line);
            RemoteLogMetadataCache cache = new RemoteLogMetadataCache();
            cache.markInitialized();
            Map<RemoteLogSegmentId, Integer> numbers = new LinkedHashMap<>();
            for (JsonNode segment : given.get("segments")) {
                RemoteLogSegmentId id = new RemoteLogSegmentId(place, Uuid.randomUuid());
                numbers.put(id, numbers.size());
                TreeMap<Integer, Long> epochs = new TreeMap<>();
                segment.get("epochs").forEach(entry -> epochs.put(entry.get(0).asInt(), entry.get(1).asLong()));
                cache.addCopyInProgressSegment(new RemoteLogSegmentMetadata(
                    id, segment.get("start").asLong(), segment.get("end").asLong() - 1, 1L, 1, 1L, 1000, epochs));
                for (JsonNode state : segment.get("states")) {
                    cache.updateRemoteLogSegmentMetadata(new RemoteLogSegmentMetadataUpdate(
                        id, 1L, Optional.empty(), RemoteLogSegmentState.valueOf(state.asText()), 1));
                }
            }
            List<Integer> found = new ArrayList<>();
            long offset = 0;
            for (JsonNode epoch : given.get("epoch_of")) {
                found.add(cache.remoteLogSegmentMetadata(epoch.asInt(), offset++)
                    .map(segment -> numbers.get(segment.remoteLogSegmentId())).orElse(-1));
            }
            Map<String, Long> highest = new LinkedHashMap<>();
            for (JsonNode entry : given.get("epochs")) {
                cache.highestOffsetForEpoch(entry.get(0).asInt())
                    .ifPresent(value -> highest.put(entry.get(0).asText(), value));
            }
            System.out.println(json.writeValueAsString(Map.of("found", found, "highest", highest)));
        }
    }
}
