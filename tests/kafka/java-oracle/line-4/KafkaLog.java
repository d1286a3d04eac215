import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.security.DigestException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.OffsetMap;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** Kafka 4.1 to 4.4: the log and the cleaner are written in Java. */
final class KafkaLog {
    static final int SMALLEST_SEGMENT = 1 << 20;
    private static final int TRANSACTION_TIMEOUT_MS = 900_000;
    private static final int EXPIRATION_CHECK_MS = 600_000;

    private final UnifiedLog log;

    KafkaLog(Command command, LogConfig config, Scheduler scheduler, Time time, boolean isClean) throws IOException {
        int expiration = (int) command.number("producer_id_expiration_ms", 86_400_000);
        log = UnifiedLog.create(
            command.directory(),
            config,
            command.number("log_start_offset", 0),
            command.number("recovery_point", 0),
            scheduler,
            new BrokerTopicStats(),
            time,
            TRANSACTION_TIMEOUT_MS,
            new ProducerStateManagerConfig(expiration, false),
            EXPIRATION_CHECK_MS,
            new LogDirFailureChannel(1),
            isClean,
            Optional.empty(),
            new ConcurrentHashMap<>(),
            command.has("highest_remote_offset"),
            LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
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
        return log.logSegments();
    }

    void setHighWatermark(long offset) throws IOException {
        log.updateHighWatermark(offset);
    }

    /** As a follower appends what it fetched: offsets, epochs and formats stay as they are. */
    void append(MemoryRecords records, int leaderEpoch) throws IOException {
        log.appendAsFollower(records, leaderEpoch);
        log.updateHighWatermark(log.logEndOffset());
    }

    void roll() throws IOException {
        log.roll();
    }

    int deleteOldSegments() throws IOException {
        return log.deleteOldSegments();
    }

    List<Long> offsetsBefore(long at, int count) {
        throw new UnsupportedOperationException("4.0 removed version 0 of ListOffsets");
    }

    void moveStart(long offset) throws IOException {
        log.maybeIncrementLogStartOffset(offset, LogStartOffsetIncrementReason.ClientRecordDeletion);
    }

    ObjectNode clean(
            OffsetMap map, int buffer, int largestBatch, double load, Time time, long firstDirty, long uncleanable)
            throws IOException, DigestException {
        Throttler throttler = new Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "cleaner-io", "bytes", time);
        Cleaner cleaner = new Cleaner(0, map, buffer, largestBatch, load, throttler, time, partition -> { });
        LogToClean range = new LogToClean(log, firstDirty, uncleanable, false);
        Map.Entry<Long, CleanerStats> done = cleaner.doClean(range, time.milliseconds());
        return Command.object()
            .put("first_dirty_offset", firstDirty)
            .put("uncleanable", uncleanable)
            .put("cleanable_bytes", range.cleanableBytes())
            .put("end_offset", done.getKey())
            .put("messages_read", done.getValue().messagesRead())
            .put("messages_written", done.getValue().messagesWritten());
    }

    static int recover(LogSegment segment, ProducerStateManager producers, File directory, Scheduler scheduler)
            throws IOException {
        return segment.recover(
            producers,
            UnifiedLog.createLeaderEpochCache(
                directory,
                UnifiedLog.parseTopicPartitionName(directory),
                new LogDirFailureChannel(1),
                Optional.empty(),
                scheduler));
    }

    /** From 4.4 on the indexes of the active segment are cut to size in a step of its own, in front of closing. */
    void close() throws ReflectiveOperationException {
        try {
            UnifiedLog.class.getMethod("prepareActiveSegmentForClose").invoke(log);
        } catch (NoSuchMethodException isOlder) {
            // close() does it
        }
        log.close();
    }
}
