import java.io.IOException;
import java.io.OutputStream;
import java.nio.channels.Channels;
import java.nio.channels.WritableByteChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Random;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Writes a segment with Kafka's own builder: what no broker of today writes any more, but all of them read. Batches of
 * the formats v0, v1 and v2 in any order, every codec, both timestamp types, offsets with gaps as compaction leaves
 * them, producers, transactions and their markers, delete horizons.
 */
public final class WriteSegment {
    private final Random random;
    private final Chance chance;
    private long offset;

    private WriteSegment(long seed) {
        this.random = new Random(seed);
        this.chance = new Chance(random);
    }

    public static void main(String[] arguments) throws IOException {
        WriteSegment segment = new WriteSegment(Long.parseLong(arguments[0]));
        int count = Integer.parseInt(arguments[1]);
        try (OutputStream out = Files.newOutputStream(Path.of(arguments[2]));
             WritableByteChannel channel = Channels.newChannel(out)) {
            for (int i = 0; i < count; i++) {
                channel.write(segment.next().buffer());
            }
        }
    }

    private MemoryRecords next() {
        if (random.nextInt(20) == 0) {
            ControlRecordType type = random.nextBoolean() ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
            EndTransactionMarker marker = new EndTransactionMarker(type, random.nextInt(100));
            return MemoryRecords.withEndTransactionMarker(
                offset++, chance.timestamp(), 7, random.nextInt(1000), (short) random.nextInt(100), marker);
        }
        byte magic = (byte) random.nextInt(3);
        String codec;
        do {
            codec = chance.pick(Chance.CODECS);
        } while (codec.equals("zstd") && magic < RecordBatch.MAGIC_VALUE_V2);
        boolean stamped = magic > RecordBatch.MAGIC_VALUE_V0 && random.nextInt(3) == 0;
        boolean hasProducer = magic == RecordBatch.MAGIC_VALUE_V2 && random.nextBoolean();
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
            new ByteBufferOutputStream(1024),
            magic,
            Compression.of(codec).build(),
            magic == RecordBatch.MAGIC_VALUE_V0 ? TimestampType.NO_TIMESTAMP_TYPE
                : stamped ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME,
            offset,
            stamped ? chance.timestamp() : RecordBatch.NO_TIMESTAMP,
            hasProducer ? random.nextInt(1000) : RecordBatch.NO_PRODUCER_ID,
            hasProducer ? (short) random.nextInt(100) : RecordBatch.NO_PRODUCER_EPOCH,
            hasProducer ? random.nextInt(Integer.MAX_VALUE) : RecordBatch.NO_SEQUENCE,
            hasProducer && random.nextBoolean(),
            false,
            7,
            Integer.MAX_VALUE,
            magic == RecordBatch.MAGIC_VALUE_V2 && !stamped && random.nextInt(4) == 0 ? chance.timestamp()
                : RecordBatch.NO_TIMESTAMP);
        for (int n = random.nextInt(random.nextInt(10) == 0 ? 200 : 12); n >= 0; n--) {
            long timestamp = magic == RecordBatch.MAGIC_VALUE_V0 ? RecordBatch.NO_TIMESTAMP : chance.timestamp();
            byte[] value = chance.value();
            if (magic < RecordBatch.MAGIC_VALUE_V2) {
                builder.appendWithOffset(offset, timestamp, chance.key(), value);
            } else {
                builder.appendWithOffset(offset, timestamp, chance.key(), value, chance.headers());
            }
            offset += random.nextInt(5) == 0 ? 1 + random.nextInt(40) : 1;
        }
        return builder.build();
    }
}
