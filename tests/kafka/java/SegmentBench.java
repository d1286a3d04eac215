import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.FileLogInputStream.FileChannelRecordBatch;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;
import org.apache.kafka.common.utils.Utils;

/**
 * Reads a segment again and again with Kafka's own classes, one round for every line on stdin. See java_bench.py.
 */
public final class SegmentBench {
    private long records;
    private long batches;
    private long offsetSum;
    private long timestampSum;
    private long keyBytes;
    private long valueBytes;
    private long headers;
    private long headerBytes;

    public static void main(String[] arguments) throws IOException {
        File file = new File(arguments[0]);
        for (int warmUp = Integer.parseInt(arguments[1]); warmUp > 0; warmUp--) {
            new SegmentBench().read(file);
        }
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        while (in.readLine() != null) {
            SegmentBench round = new SegmentBench();
            long begin = System.nanoTime();
            round.read(file);
            long ns = System.nanoTime() - begin;
            System.out.println(
                "{\"ns\":" + ns + ",\"bytes\":" + file.length() + ",\"batches\":" + round.batches
                    + ",\"records\":" + round.records + ",\"offset_sum\":" + round.offsetSum
                    + ",\"timestamp_sum\":" + round.timestampSum + ",\"key_bytes\":" + round.keyBytes
                    + ",\"value_bytes\":" + round.valueBytes + ",\"headers\":" + round.headers
                    + ",\"header_bytes\":" + round.headerBytes + "}");
        }
    }

    /** Every CRC, every record, every field; key, value and headers end as arrays of their own. */
    private void read(File file) throws IOException {
        try (FileRecords segment = FileRecords.open(file, false); BufferSupplier buffers = BufferSupplier.create()) {
            for (FileChannelRecordBatch batch : segment.batches()) {
                batch.ensureValid();
                batches++;
                try (CloseableIterator<Record> iterator = batch.streamingIterator(buffers)) {
                    while (iterator.hasNext()) {
                        take(iterator.next());
                    }
                }
            }
        }
    }

    private void take(Record record) {
        records++;
        offsetSum += record.offset();
        timestampSum += record.timestamp();
        keyBytes += length(record.key());
        valueBytes += length(record.value());
        for (Header header : record.headers()) {
            headers++;
            headerBytes += header.key().length();
            byte[] value = header.value();
            headerBytes += value == null ? 0 : value.length;
        }
    }

    private static int length(ByteBuffer bytes) {
        byte[] copy = Utils.toNullableArray(bytes);
        return copy == null ? 0 : copy.length;
    }
}
