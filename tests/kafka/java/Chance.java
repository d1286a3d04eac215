import java.nio.charset.StandardCharsets;
import java.util.Random;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/** Records as they come: of every kind that is legal, often enough. */
final class Chance {
    static final String[] CODECS = {"none", "gzip", "snappy", "lz4", "zstd"};
    private static final String[] NAMES = {"h", "trace-id", "", "größe", "日本語", "emoji \uD83D\uDE00", "q\"uote", "a,b]"};
    private static final long NOW = 1_700_000_000_000L;

    private final Random random;

    Chance(Random random) {
        this.random = random;
    }

    byte[] key() {
        return switch (random.nextInt(6)) {
            case 0 -> null;
            case 1 -> new byte[0];
            case 2 -> bytes(1 + random.nextInt(40));
            default -> ("key-" + random.nextInt(50)).getBytes(StandardCharsets.UTF_8);
        };
    }

    byte[] value() {
        return switch (random.nextInt(10)) {
            case 0 -> null;
            case 1 -> new byte[0];
            case 2 -> bytes(random.nextInt(3000));
            case 3 -> bytes(1 + random.nextInt(127));
            default -> ("{\"n\":" + random.nextInt() + ",\"text\":\"" + "größer ".repeat(random.nextInt(12)) + "\"}")
                .getBytes(StandardCharsets.UTF_8);
        };
    }

    /** None for most; often the same name twice. */
    Header[] headers() {
        Header[] headers = new Header[random.nextInt(3) == 0 ? random.nextInt(5) : 0];
        for (int i = 0; i < headers.length; i++) {
            byte[] content = switch (random.nextInt(4)) {
                case 0 -> null;
                case 1 -> new byte[0];
                default -> bytes(random.nextInt(90));
            };
            headers[i] = new RecordHeader(pick(NAMES), content);
        }
        return headers;
    }

    long timestamp() {
        return switch (random.nextInt(7)) {
            case 0 -> random.nextInt(5);
            case 1 -> NOW - random.nextInt();
            case 2 -> 4_102_444_800_000L + random.nextInt(1000);
            default -> NOW + random.nextInt(100_000);
        };
    }

    byte[] bytes(int size) {
        byte[] bytes = new byte[size];
        random.nextBytes(bytes);
        return bytes;
    }

    String pick(String... choices) {
        return choices[random.nextInt(choices.length)];
    }
}
