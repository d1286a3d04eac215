import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.Map;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogSegment;

/** A log as a command asks for it to be loaded, with the clock that it sees. */
final class OpenLog implements AutoCloseable {
    final KafkaLog log;
    final TestClock clock;
    private final Tasks tasks = new Tasks();

    /** isClean: as if the broker's mark of a clean stop were there; then nothing is recovered. */
    OpenLog(Command command, boolean isClean) throws Exception {
        clock = new TestClock(command.now());
        log = new KafkaLog(command, configuration(command), tasks, clock, isClean);
        log.setHighWatermark(command.number("high_watermark", log.endOffset()));
        if (command.has("highest_remote_offset")) {
            log.setHighestRemoteOffset(command.number("highest_remote_offset", -1));
        }
    }

    /** From 4.0 on small segments are refused under the public name, and taken under an internal one. */
    static LogConfig configuration(Command command) {
        Map<String, Object> values = command.configuration();
        values.put("file.delete.delay.ms", "0");
        values.putIfAbsent("max.message.bytes", "100000000");
        Object size = values.get("segment.bytes");
        if (size != null && Long.parseLong(size.toString()) < KafkaLog.SMALLEST_SEGMENT) {
            values.put("segment.bytes", String.valueOf(KafkaLog.SMALLEST_SEGMENT));
            values.put("internal.segment.bytes", size);
        }
        return new LogConfig(values);
    }

    ObjectNode state() throws IOException {
        ObjectNode state = Command.object();
        state.put("log_start_offset", log.startOffset());
        state.put("log_end_offset", log.endOffset());
        state.put("high_watermark", log.highWatermark());
        state.put("last_stable_offset", log.lastStableOffset());
        state.put("recovery_point", log.recoveryPoint());
        state.put("size", log.size());
        ArrayNode bases = state.putArray("base_offsets");
        for (LogSegment segment : log.segments()) {
            bases.add(segment.baseOffset());
        }
        return state;
    }

    @Override
    public void close() throws Exception {
        tasks.run();
        log.close();
        tasks.run();
    }
}
