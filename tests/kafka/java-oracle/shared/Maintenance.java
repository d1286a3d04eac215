import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;

/** What a broker does with a partition directory, each in one call. The directory is changed. */
final class Maintenance {
    static final int IO_BUFFER = 1 << 18;
    private static final int LARGEST_BATCH = 100_000_000;
    private static final int MAP_BYTES = 4 << 20;

    private Maintenance() {
    }

    /** A start, unless it is said otherwise after a crash, and a stop. */
    static ObjectNode recover(Command command) throws Exception {
        try (OpenLog open = new OpenLog(command, command.flag("clean_stop", false))) {
            return open.state();
        }
    }

    /** A round of the cleaner. */
    static ObjectNode clean(Command command) throws Exception {
        try (OpenLog open = new OpenLog(command, command.flag("clean_stop", true))) {
            ObjectNode cleaned = clean(open, command);
            return cleaned.setAll(open.state());
        }
    }

    static ObjectNode clean(OpenLog open, Command command) throws Exception {
        KafkaLog log = open.log;
        List<LogSegment> segments = log.segments();
        long active = segments.get(segments.size() - 1).baseOffset();
        long firstDirty = command.number("first_dirty_offset", log.startOffset());
        // as the cleaner's manager bounds it; LogToClean rounds down to a segment
        long bound = Math.max(firstDirty, command.number("uncleanable", Math.min(log.lastStableOffset(), active)));
        SkimpyOffsetMap map = new SkimpyOffsetMap((int) command.number("map_bytes", MAP_BYTES));
        double load = command.fraction("load_factor", 0.9);
        return log.clean(map, IO_BUFFER, LARGEST_BATCH, load, open.clock, firstDirty, bound);
    }

    /** A round of retention, behind DeleteRecords if that is asked for. */
    static ObjectNode retain(Command command) throws Exception {
        try (OpenLog open = new OpenLog(command, command.flag("clean_stop", true))) {
            if (command.has("delete_records_before")) {
                open.log.moveStart(command.number("delete_records_before", 0));
            }
            int deleted = open.log.deleteOldSegments();
            return open.state().put("deleted_segments", deleted);
        }
    }

    /** Offsets at which segments begin, as version 0 of ListOffsets had them. */
    static ObjectNode offsetsBefore(Command command) throws Exception {
        try (OpenLog open = new OpenLog(command, true)) {
            ObjectNode answer = Command.object();
            ArrayNode offsets = answer.putArray("offsets");
            for (long offset : open.log.offsetsBefore(command.number("at", -1), (int) command.number("count", 1))) {
                offsets.add(offset);
            }
            return answer;
        }
    }

    /** Appends one after the other, each at its own time. */
    static ObjectNode write(Command command) throws Exception {
        if (!command.directory().isDirectory() && !command.directory().mkdirs()) {
            throw new IllegalArgumentException("no such directory, and it cannot be made");
        }
        try (OpenLog open = new OpenLog(command, command.flag("clean_stop", true))) {
            for (JsonNode append : command.fields().get("appends")) {
                open.clock.set(append.get("now").asLong());
                byte[] batches = Base64.getDecoder().decode(append.get("batches").asText());
                // a follower leaves out batches of epochs above that of the leader it fetched from
                int epoch = append.path("leader_epoch").asInt(Integer.MAX_VALUE);
                open.log.append(MemoryRecords.readableRecords(ByteBuffer.wrap(batches)), epoch);
            }
            return open.state();
        }
    }
}
