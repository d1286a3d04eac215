import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import kafka.log.Cleaner;
import kafka.log.CleanerStats;
import kafka.log.LogToClean;
import kafka.log.UnifiedLog;
import kafka.server.BrokerTopicStats;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.OffsetMap;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.utils.Throttler;
import scala.Option;
import scala.runtime.BoxedUnit;

/** Kafka 3.9: the log and the cleaner are written in Scala. */
final class KafkaLog {
    static final int SMALLEST_SEGMENT = 14;
    private static final int TRANSACTION_TIMEOUT_MS = 900_000;
    private static final int EXPIRATION_CHECK_MS = 600_000;

    private final UnifiedLog log;
    private final TopicPartition topicPartition;

    KafkaLog(Command command, LogConfig config, Scheduler scheduler, Time time, boolean isClean) {
        int expiration = (int) command.number("producer_id_expiration_ms", 86_400_000);
        log = UnifiedLog.apply(
            command.directory(),
            config,
            command.number("log_start_offset", 0),
            command.number("recovery_point", 0),
            scheduler,
            new BrokerTopicStats(false),
            time,
            TRANSACTION_TIMEOUT_MS,
            new ProducerStateManagerConfig(expiration, false),
            EXPIRATION_CHECK_MS,
            new LogDirFailureChannel(1),
            isClean,
            Option.empty(),
            true,
            new ConcurrentHashMap<>(),
            command.has("highest_remote_offset"),
            LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
        topicPartition = log.topicPartition();
    }

    long startOffset() {
        return log.logStartOffset();
    }

    void setHighestRemoteOffset(long offset) {
        log.updateHighestOffsetInRemoteStorage(offset);
    }

    long endOffset() {
        return log.logEndOffset();
    }

    long highWatermark() {
        return log.highWatermark();
    }

    long lastStableOffset() {
        return log.lastStableOffset();
    }

    long recoveryPoint() {
        return log.recoveryPoint();
    }

    long size() {
        return log.size();
    }

    List<LogSegment> segments() {
        return new ArrayList<>(log.logSegments());
    }

    void setHighWatermark(long offset) {
        log.updateHighWatermark(offset);
    }

    /** As a follower appends what it fetched: offsets, epochs and formats stay as they are. */
    void append(MemoryRecords records, int leaderEpoch) {
        log.appendAsFollower(records, leaderEpoch);
        log.updateHighWatermark(log.logEndOffset());
    }

    void roll() {
        log.roll(Option.empty());
    }

    int deleteOldSegments() {
        return log.deleteOldSegments();
    }

    List<Long> offsetsBefore(long at, int count) {
        List<Long> offsets = new ArrayList<>();
        log.legacyFetchOffsetsBefore(at, count).foreach(offset -> offsets.add((Long) offset));
        return offsets;
    }

    void moveStart(long offset) {
        log.maybeIncrementLogStartOffset(offset, LogStartOffsetIncrementReason.ClientRecordDeletion);
    }

    ObjectNode clean(
            OffsetMap map, int buffer, int largestBatch, double load, Time time, long firstDirty, long uncleanable) {
        Throttler throttler = new Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "cleaner-io", "bytes", time);
        Cleaner cleaner = new Cleaner(0, map, buffer, largestBatch, load, throttler, time, partition -> BoxedUnit.UNIT);
        LogToClean range = new LogToClean(topicPartition, log, firstDirty, uncleanable, false);
        var done = cleaner.doClean(range, time.milliseconds());
        CleanerStats stats = (CleanerStats) done._2();
        return Command.object()
            .put("first_dirty_offset", firstDirty)
            .put("uncleanable", uncleanable)
            .put("cleanable_bytes", range.cleanableBytes())
            .put("end_offset", ((Number) done._1()).longValue())
            .put("messages_read", stats.messagesRead())
            .put("messages_written", stats.messagesWritten());
    }

    static int recover(LogSegment segment, ProducerStateManager producers, File directory, Scheduler scheduler)
            throws IOException {
        return segment.recover(producers, Optional.empty());
    }

    void close() {
        log.close();
    }
}
