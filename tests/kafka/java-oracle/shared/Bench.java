import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;

/**
 * Kafka's loops, timed round after round in one JVM. Each round works on a new copy; copying, opening and closing are
 * not timed. The first rounds are slow, until the JVM has compiled what runs: all of them are answered.
 */
final class Bench {
    private final Command command;
    private final int rounds;
    private final ObjectNode answer = Command.object();
    private final ArrayNode nanoseconds = answer.putArray("rounds_ns");

    private Bench(Command command) {
        this.command = command;
        rounds = (int) command.number("rounds", 6);
    }

    static ObjectNode run(Command command) throws Exception {
        Bench bench = new Bench(command);
        String what = command.text("what", "");
        switch (what) {
            case "clean" -> bench.clean();
            case "recover" -> bench.recover();
            case "offset_map" -> bench.fillMap();
            default -> throw new IllegalArgumentException("no such bench: " + what);
        }
        return bench.answer.put("what", what);
    }

    /** `Cleaner.doClean`, with the fields of the command `clean`. */
    private void clean() throws Exception {
        File copy = copyOf(command.directory());
        ObjectNode fields = command.fields().deepCopy();
        Command onCopy = new Command(fields.put("directory", copy.getPath()));
        for (int round = 0; round < rounds; round++) {
            Directories.copy(command.directory(), copy);
            try (OpenLog open = new OpenLog(onCopy, true)) {
                answer.put("bytes", open.log.size());
                long began = System.nanoTime();
                ObjectNode cleaned = Maintenance.clean(open, onCopy);
                nanoseconds.add(System.nanoTime() - began);
                answer.setAll(cleaned);
            } finally {
                Directories.remove(copy);
            }
        }
    }

    /** `LogSegment.recover` of every segment, with empty producer state: CRCs checked, three indexes made. */
    private void recover() throws Exception {
        File copy = copyOf(command.directory());
        LogConfig config = OpenLog.configuration(command);
        TestClock clock = new TestClock(command.now());
        for (int round = 0; round < rounds; round++) {
            Directories.copy(command.directory(), copy);
            long bytes = 0;
            long elapsed = 0;
            for (Path log : Directories.list(copy)) {
                String name = log.getFileName().toString();
                if (!name.endsWith(".log")) {
                    continue;
                }
                ProducerStateManager producers = new ProducerStateManager(
                    new TopicPartition("t", 0), copy, 900_000, new ProducerStateManagerConfig(86_400_000, false), clock);
                long base = Long.parseLong(name.substring(0, 20));
                LogSegment segment = LogSegment.open(copy, base, config, clock, true, 0, false, "");
                bytes += segment.size();
                long began = System.nanoTime();
                int cut = KafkaLog.recover(segment, producers, copy, new Tasks());
                elapsed += System.nanoTime() - began;
                answer.put("cut_bytes", answer.path("cut_bytes").asLong() + cut);
                segment.close();
            }
            nanoseconds.add(elapsed);
            answer.put("bytes", bytes);
            Directories.remove(copy);
        }
    }

    /** `SkimpyOffsetMap.put` of as many different keys as the map takes at the cleaner's load factor. */
    private void fillMap() throws Exception {
        SkimpyOffsetMap map = new SkimpyOffsetMap((int) command.number("map_bytes", 64 << 20));
        int keys = (int) (map.slots() * command.fraction("load_factor", 0.9));
        ByteBuffer key = ByteBuffer.allocate((int) command.number("key_bytes", 16));
        for (int round = 0; round < rounds; round++) {
            map.clear();
            long began = System.nanoTime();
            for (int number = 0; number < keys; number++) {
                key.clear();
                key.putLong(0, number * 0x9E3779B97F4A7C15L);
                map.put(key, number);
            }
            nanoseconds.add(System.nanoTime() - began);
        }
        answer.put("keys", keys).put("slots", map.slots()).put("bytes", (long) map.slots() * map.bytesPerEntry);
    }

    private static File copyOf(File directory) {
        return new File(directory.getParentFile(), "bench-of-" + directory.getName());
    }
}
