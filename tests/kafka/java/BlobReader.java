import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;
import org.apache.kafka.common.utils.Utils;

/**
 * Decodes blobs with Kafka's own classes, as a consumer decodes what it fetched. The protocol is in java_reader.py.
 */
public final class BlobReader {
    private static final int CHECK_BATCH = 1;
    private static final int CHECK_RECORD = 2;
    private static final int READ = 0;
    private static final int REFUSED = 1;
    private static final int TOO_LARGE = 2;

    private final BufferSupplier buffers = BufferSupplier.create();
    private final ByteArrayOutputStream answer = new ByteArrayOutputStream();
    private final DataOutputStream out = new DataOutputStream(answer);
    private final int limit;

    private BlobReader(int limit) {
        this.limit = limit;
    }

    private static final class TooLarge extends RuntimeException {
        TooLarge() {
            super(null, null, false, false);
        }
    }

    public static void main(String[] arguments) throws IOException {
        // Whatever else prints must not get between the answers.
        OutputStream raw = new FileOutputStream(FileDescriptor.out);
        System.setOut(System.err);
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(raw, 1 << 16));
        BlobReader reader = new BlobReader(Integer.parseInt(arguments[0]));
        while (true) {
            int flags;
            try {
                flags = in.readInt();
            } catch (EOFException end) {
                return;
            }
            byte[][] blobs = new byte[in.readInt()][];
            for (int i = 0; i < blobs.length; i++) {
                blobs[i] = new byte[in.readInt()];
                in.readFully(blobs[i]);
            }
            for (byte[] blob : blobs) {
                byte[] answer = reader.read(blob, flags);
                out.writeInt(answer.length);
                out.write(answer);
            }
            out.flush();
        }
    }

    private byte[] read(byte[] blob, int flags) throws IOException {
        ByteArrayOutputStream good = new ByteArrayOutputStream();
        int position = 0;
        int status = READ;
        String exception = "";
        try {
            for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(blob)).batches()) {
                answer.reset();
                writeBatch(batch, position, flags, limit - good.size());
                answer.writeTo(good);
                position += batch.sizeInBytes();
            }
        } catch (TooLarge e) {
            status = TOO_LARGE;
        } catch (Throwable e) {
            status = REFUSED;
            exception = e.getClass().getName();
        }
        answer.reset();
        out.writeByte(status);
        out.writeInt(position);
        writeBytes(exception.getBytes(StandardCharsets.UTF_8));
        good.writeTo(answer);
        return answer.toByteArray();
    }

    private void writeBatch(MutableRecordBatch batch, int position, int flags, int room) throws IOException {
        if ((flags & CHECK_BATCH) != 0) {
            batch.ensureValid();
        }
        out.writeInt(position);
        out.writeInt(batch.sizeInBytes());
        out.writeLong(batch.baseOffset());
        out.writeLong(batch.lastOffset());
        out.writeByte(batch.magic());
        out.writeByte(batch.compressionType().id);
        out.writeByte(batch.timestampType().id);
        out.writeBoolean(batch.isTransactional());
        out.writeBoolean(batch.isControlBatch());
        out.writeInt(batch.partitionLeaderEpoch());
        out.writeLong(batch.producerId());
        out.writeShort(batch.producerEpoch());
        out.writeInt(batch.baseSequence());
        out.writeLong(batch.maxTimestamp());
        out.writeBoolean(batch.deleteHorizonMs().isPresent());
        out.writeLong(batch.deleteHorizonMs().orElse(-1));
        try (CloseableIterator<Record> records = batch.streamingIterator(buffers)) {
            while (records.hasNext()) {
                Record record = records.next();
                if ((flags & CHECK_RECORD) != 0) {
                    record.ensureValid();
                }
                out.writeByte(1);
                writeRecord(record);
                if (answer.size() > room) {
                    throw new TooLarge();
                }
            }
        }
        out.writeByte(0);
    }

    private void writeRecord(Record record) throws IOException {
        out.writeLong(record.offset());
        out.writeLong(record.timestamp());
        out.writeInt(record.sequence());
        writeBytes(Utils.toNullableArray(record.key()));
        writeBytes(Utils.toNullableArray(record.value()));
        Header[] headers = record.headers();
        out.writeInt(headers.length);
        for (Header header : headers) {
            writeBytes(header.key().getBytes(StandardCharsets.UTF_8));
            writeBytes(header.value());
        }
    }

    private void writeBytes(byte[] bytes) throws IOException {
        if (bytes == null) {
            out.writeInt(-1);
        } else {
            out.writeInt(bytes.length);
            out.write(bytes);
        }
    }
}
