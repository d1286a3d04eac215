import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;

/** Kafka 3.9 with `message.format.version` of the producer: the topic keeps its format and codec. */
final class Validation {
    private static final TopicPartition PLACE = new TopicPartition("t", 0);

    private Validation() {
    }

    static MemoryRecords validated(MemoryRecords records, MutableRecordBatch batch, long offset) {
        LogValidator validator = new LogValidator(
            records, PLACE, Time.SYSTEM, batch.compressionType(), Compression.of(batch.compressionType()).build(),
            false, batch.magic(), TimestampType.CREATE_TIME, Long.MAX_VALUE, Long.MAX_VALUE, 0, AppendOrigin.CLIENT,
            MetadataVersion.latestTesting());
        return validator.validateMessagesAndAssignOffsets(
            PrimitiveRef.ofLong(offset), new Uncounted(), BufferSupplier.NO_CACHING).validatedRecords;
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
