import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;

/** Kafka 4, which writes older formats as v2. The topic keeps the codec. Times may be an hour ahead. */
final class Validation {
    private static final TopicPartition PLACE = new TopicPartition("t", 0);
    private static final long HOUR = 3_600_000;

    private Validation() {
    }

    static MemoryRecords validated(MemoryRecords records, MutableRecordBatch batch, long offset) {
        LogValidator validator = new LogValidator(
            records, PLACE, Time.SYSTEM, batch.compressionType(), Compression.of(batch.compressionType()).build(),
            false, RecordBatch.MAGIC_VALUE_V2, TimestampType.CREATE_TIME, Long.MAX_VALUE, HOUR, 0, AppendOrigin.CLIENT);
        return validator.validateMessagesAndAssignOffsets(
            PrimitiveRef.ofLong(offset), new Uncounted(), BufferSupplier.NO_CACHING).validatedRecords();
    }

    private static final class Uncounted implements LogValidator.MetricsRecorder {
        @Override
        public void recordInvalidMagic() {
        }

        @Override
        public void recordInvalidOffset() {
        }

        @Override
        public void recordInvalidSequence() {
        }

        @Override
        public void recordInvalidChecksums() {
        }

        @Override
        public void recordNoKeyCompactedTopic() {
        }
    }
}
