import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Random;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/** Keys, values and headers as a specification wants them. */
final class RandomContent {
    private static final byte[] TEXT = "{\"id\":%d,\"name\":\"größe\"},".getBytes(StandardCharsets.UTF_8);

    private final Random random;
    private final double withoutKey;
    private final double emptyKey;
    private final int keys;
    private final double tombstone;
    private final double emptyValue;
    private final int largestValue;
    private final double withHeaders;

    RandomContent(JsonNode spec, Random random) {
        this.random = random;
        withoutKey = spec.path("without_key").asDouble(0.05);
        emptyKey = spec.path("empty_key").asDouble(0.01);
        keys = spec.path("keys").asInt(30);
        tombstone = spec.path("tombstone").asDouble(0.1);
        emptyValue = spec.path("empty_value").asDouble(0.03);
        largestValue = spec.path("largest_value").asInt(200);
        withHeaders = spec.path("headers").asDouble(0);
    }

    byte[] key() {
        double drawn = random.nextDouble();
        if (drawn < withoutKey) {
            return null;
        }
        if (drawn < withoutKey + emptyKey) {
            return new byte[0];
        }
        return ("key-" + random.nextInt(keys)).getBytes(StandardCharsets.UTF_8);
    }

    byte[] value() {
        double drawn = random.nextDouble();
        if (drawn < tombstone) {
            return null;
        }
        return drawn < tombstone + emptyValue ? new byte[0] : bytes(1 + random.nextInt(largestValue));
    }

    /** Names may come twice; a value may be null. */
    Header[] headers() {
        if (random.nextDouble() >= withHeaders) {
            return new Header[0];
        }
        Header[] headers = new Header[1 + random.nextInt(3)];
        for (int number = 0; number < headers.length; number++) {
            String name = "h" + random.nextInt(3) + (random.nextInt(4) == 0 ? "é" : "");
            headers[number] = new RecordHeader(name, random.nextInt(4) == 0 ? null : bytes(random.nextInt(20)));
        }
        return headers;
    }

    /** A codec finds nothing in some, something in others, and everything in the rest. */
    private byte[] bytes(int size) {
        byte[] bytes = new byte[size];
        switch (random.nextInt(3)) {
            case 0 -> random.nextBytes(bytes);
            case 1 -> {
                byte[] text = new String(TEXT, StandardCharsets.UTF_8)
                    .formatted(random.nextInt(1000))
                    .getBytes(StandardCharsets.UTF_8);
                for (int position = 0; position < size; position++) {
                    bytes[position] = text[position % text.length];
                }
            }
            default -> Arrays.fill(bytes, (byte) ('a' + random.nextInt(26)));
        }
        return bytes;
    }
}
