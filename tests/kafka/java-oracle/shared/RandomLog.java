import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;

/**
 * A log made from a seed by Kafka's own builder and log. The same specification gives the same batches in every
 * version, as far as the codecs' libraries do. Its fields are listed in tests/differential/specifications.py.
 */
final class RandomLog {
    private final JsonNode spec;
    private final OpenLog open;
    private final Random random;
    private final RandomContent content;
    private final List<RandomProducer> producers = new ArrayList<>();
    private long offset;
    private long time;
    private int leaderEpoch;
    private int records;

    private RandomLog(Command command, OpenLog open) {
        spec = command.fields().get("specification");
        this.open = open;
        random = new Random(spec.path("seed").asLong());
        content = new RandomContent(spec, random);
        offset = command.number("log_start_offset", 0);
        time = command.now();
        for (int number = 0; number < spec.path("producers").asInt(3); number++) {
            producers.add(new RandomProducer(number));
        }
    }

    static ObjectNode generate(Command command) throws Exception {
        if (!command.directory().mkdirs()) {
            throw new IllegalArgumentException("a log is made where there is none");
        }
        try (OpenLog open = new OpenLog(command, true)) {
            RandomLog random = new RandomLog(command, open);
            random.fill();
            return open.state().put("records", random.records).put("end_ms", random.time);
        }
    }

    private void fill() throws Exception {
        int batches = spec.path("batches").asInt(50);
        for (int number = 0; number < batches; number++) {
            open.clock.set(time);
            if (happens("roll") && number > 0) {
                open.log.roll();
            }
            if (happens("leader_change")) {
                leaderEpoch++;
            }
            if (happens("gap")) {
                offset += 1 + random.nextInt(20);
            }
            appendNext();
            time += spec.path("step_ms").asLong(1000);
            if (happens("clock_jump")) {
                // markers carry the time of their broker, so this one may not be negative
                long far = spec.path("clock_jump_ms").asLong(0);
                time = Math.max(1, time + (long) ((random.nextDouble() * 2 - 1) * far));
            }
        }
        if (!spec.path("leave_open").asBoolean(false)) {
            for (RandomProducer producer : producers) {
                if (producer.inTransaction) {
                    end(producer, true);
                }
            }
        }
        if (happens("last_roll")) {
            open.log.roll();
        }
    }

    private void appendNext() throws Exception {
        byte magic = Byte.parseByte(oneOf("magic", "2"));
        if (magic < RecordBatch.MAGIC_VALUE_V2 || producers.isEmpty()) {
            append(magic, null, false);
            return;
        }
        RandomProducer producer = producers.get(random.nextInt(producers.size()));
        if (happens("marker") && (producer.inTransaction || happens("marker_of_nothing"))) {
            end(producer, !happens("abort"));
            return;
        }
        boolean transactional = producer.inTransaction || happens("transactional");
        append(magic, transactional || happens("idempotent") ? producer : null, transactional);
    }

    private void end(RandomProducer producer, boolean commits) throws Exception {
        if (random.nextInt(10) == 0) {
            producer.coordinatorEpoch++;
        }
        open.log.append(producer.marker(offset, time, leaderEpoch, commits), leaderEpoch);
        offset++;
        if (random.nextInt(10) == 0) {
            producer.beginEpoch();
        }
    }

    private void append(byte magic, RandomProducer producer, boolean transactional) throws Exception {
        boolean isNew = magic == RecordBatch.MAGIC_VALUE_V2;
        boolean appendTime = magic > RecordBatch.MAGIC_VALUE_V0 && oneOf("timestamp_type", "create").equals("append");
        MemoryRecordsBuilder batch = MemoryRecords.builder(
            ByteBuffer.allocate(4096),
            magic,
            codec(oneOf("codec", "none"), magic),
            magic == RecordBatch.MAGIC_VALUE_V0
                ? TimestampType.NO_TIMESTAMP_TYPE
                : appendTime ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME,
            offset,
            appendTime ? time : RecordBatch.NO_TIMESTAMP,
            producer == null ? RecordBatch.NO_PRODUCER_ID : producer.id,
            producer == null ? RecordBatch.NO_PRODUCER_EPOCH : producer.epoch,
            producer == null ? RecordBatch.NO_SEQUENCE : producer.sequence,
            transactional,
            false,
            isNew ? leaderEpoch : RecordBatch.NO_PARTITION_LEADER_EPOCH);
        int count = 1 + random.nextInt(spec.path("largest_batch").asInt(10));
        for (int number = 0; number < count; number++) {
            byte[] key = content.key();
            byte[] value = content.value();
            long timestamp = timestamp(magic);
            if (isNew) {
                batch.appendWithOffset(offset + number, timestamp, key, value, content.headers());
            } else {
                batch.appendWithOffset(offset + number, timestamp, key, value);
            }
        }
        open.log.append(batch.build(), leaderEpoch);
        if (producer != null) {
            producer.sent(count, transactional);
        }
        offset += count;
        records += count;
    }

    private long timestamp(byte magic) {
        if (magic == RecordBatch.MAGIC_VALUE_V0 || happens("without_timestamp")) {
            return RecordBatch.NO_TIMESTAMP;
        }
        long jitter = spec.path("jitter_ms").asLong(0);
        return Math.max(0, time + (long) ((random.nextDouble() * 2 - 1) * jitter));
    }

    private boolean happens(String field) {
        return random.nextDouble() < spec.path(field).asDouble(0);
    }

    private String oneOf(String field, String otherwise) {
        JsonNode choices = spec.path(field);
        return choices.isEmpty() ? otherwise : choices.get(random.nextInt(choices.size())).asText();
    }

    /** zstd came with v2. */
    private static Compression codec(String name, byte magic) {
        return switch (name) {
            case "none" -> Compression.NONE;
            case "gzip" -> Compression.gzip().build();
            case "snappy" -> Compression.snappy().build();
            case "lz4" -> Compression.lz4().build();
            case "zstd" -> magic == RecordBatch.MAGIC_VALUE_V2 ? Compression.zstd().build() : Compression.gzip().build();
            default -> throw new IllegalArgumentException("no such codec: " + name);
        };
    }
}
