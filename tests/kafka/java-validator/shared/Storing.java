import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;

/** What a broker stores of the batches that a producer sends, in one JVM. The protocol is in broker_validation.py. */
public final class Storing {
    private static final int STORED = 0;
    private static final int REFUSED = 1;

    private Storing() {
    }

    public static void main(String[] arguments) throws IOException {
        // Whatever else prints must not get between the answers.
        OutputStream raw = new FileOutputStream(FileDescriptor.out);
        System.setOut(System.err);
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(raw, 1 << 16));
        while (true) {
            long offset;
            try {
                offset = in.readLong();
            } catch (EOFException end) {
                return;
            }
            byte[][] blobs = new byte[in.readInt()][];
            for (int i = 0; i < blobs.length; i++) {
                blobs[i] = new byte[in.readInt()];
                in.readFully(blobs[i]);
            }
            for (byte[] blob : blobs) {
                int status = STORED;
                byte[] answer;
                try {
                    answer = stored(blob, offset);
                } catch (Throwable e) { // an OutOfMemoryError too: bytes may declare a size that no heap holds
                    status = REFUSED;
                    answer = e.getClass().getName().getBytes(StandardCharsets.UTF_8);
                }
                out.writeByte(status);
                out.writeInt(answer.length);
                out.write(answer);
            }
            out.flush();
        }
    }

    /** The checks before those of LogValidator (`analyzeAndValidateRecords`), and then these. */
    private static byte[] stored(byte[] blob, long offset) throws Exception {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(blob));
        Iterator<? extends MutableRecordBatch> batches = records.batches().iterator();
        if (!batches.hasNext()) {
            throw new IllegalArgumentException("no batch");
        }
        MutableRecordBatch batch = batches.next();
        batch.ensureValid();
        if (batch.magic() >= 2 && batch.baseOffset() != 0) {
            throw new IllegalArgumentException("a producer's batch begins at 0");
        }
        if (batch.sizeInBytes() != blob.length) {
            throw new IllegalArgumentException("more than a batch");
        }
        ByteBuffer kept = Validation.validated(records, batch, offset).buffer();
        byte[] content = new byte[kept.remaining()];
        kept.get(content);
        return content;
    }
}
