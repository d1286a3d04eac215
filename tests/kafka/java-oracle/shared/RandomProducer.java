import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;

/** A producer with an id: what its next batch has to say of it. */
final class RandomProducer {
    /** Above 32 bits, so that both halves of an id are seen. */
    private static final long FAR = 4_000_000_000L;

    final long id;
    short epoch;
    int sequence;
    int coordinatorEpoch = 1;
    boolean inTransaction;

    RandomProducer(int number) {
        id = 1000 + 7L * number + (number == 2 ? FAR : 0);
        // one begins where the sequences begin anew
        sequence = number == 1 ? Integer.MAX_VALUE - 5 : 0;
    }

    void sent(int records, boolean transactional) {
        sequence = DefaultRecordBatch.incrementSequence(sequence, records);
        inTransaction |= transactional;
    }

    MemoryRecords marker(long offset, long timestamp, int leaderEpoch, boolean commits) {
        inTransaction = false;
        ControlRecordType type = commits ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
        EndTransactionMarker marker = new EndTransactionMarker(type, coordinatorEpoch);
        return MemoryRecords.withEndTransactionMarker(offset, timestamp, leaderEpoch, id, epoch, marker);
    }

    void beginEpoch() {
        epoch++;
        sequence = 0;
    }
}
