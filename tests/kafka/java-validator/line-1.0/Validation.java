import kafka.common.LongRef;
import kafka.log.LogValidator$;
import kafka.message.CompressionCodec;
import kafka.message.CompressionCodec$;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Time;

/** Kafka 1.0, whose validation is written in Scala. The topic keeps the producer's format and codec. */
final class Validation {
    private static final long NOW = 1_800_000_000_000L;

    private Validation() {
    }

    static MemoryRecords validated(MemoryRecords records, MutableRecordBatch batch, long offset) {
        CompressionCodec codec = CompressionCodec$.MODULE$.getCompressionCodec(batch.compressionType().id);
        return LogValidator$.MODULE$.validateMessagesAndAssignOffsets(
            records, new LongRef(offset), Time.SYSTEM, NOW, codec, codec, false, batch.magic(),
            TimestampType.CREATE_TIME, Long.MAX_VALUE, 0, true).validatedRecords();
    }
}
