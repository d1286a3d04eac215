import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Fills a new topic with as many records as a benchmark needs, in turns over its partitions, with a producer at its
 * defaults but for the codec and for waiting until a batch is full. Same arguments, same records.
 *
 * small: 13 bytes of key, about 85 of JSON · medium: the same keys, about 728 bytes of JSON with random hexadecimal.
 *
 * Arguments: servers, topic, codec, small or medium, partitions, bytes of keys and values to reach. Prints a line of
 * JSON: how many records, and how many bytes of keys and values.
 */
public final class ProduceMany {
    private static final long FIRST_TIMESTAMP = 1_700_000_000_000L;
    private static final int MEDIUM_BYTES = 726;
    private static final String[] EVENTS =
        ("click view cart buy search login logout scroll hover share like follow order refund ship return pay open "
            + "close error").split(" ");

    private final SplittableRandom random = new SplittableRandom(42);
    private final byte[] text = new byte[2 * MEDIUM_BYTES];
    private int length;

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        boolean medium = arguments[3].equals("medium");
        int partitions = Integer.parseInt(arguments[4]);
        long wanted = Long.parseLong(arguments[5]);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            Map<String, String> settings = Map.of("retention.ms", "-1");
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(settings))).all().get();
        }
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", arguments[0],
            "key.serializer", ByteArraySerializer.class.getName(),
            "value.serializer", ByteArraySerializer.class.getName(),
            "compression.type", arguments[2],
            "linger.ms", "200");
        AtomicReference<Exception> failure = new AtomicReference<>();
        ProduceMany make = new ProduceMany();
        long records = 0;
        long bytes = 0;
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            // Every partition gets as many: what an offset's sum must be is known.
            while (bytes < wanted || records % partitions != 0) {
                byte[] value = medium ? make.medium(records) : make.small(records);
                byte[] key = make.key();
                bytes += key.length + value.length;
                int partition = (int) (records % partitions);
                producer.send(
                    new ProducerRecord<>(topic, partition, FIRST_TIMESTAMP + records, key, value),
                    (metadata, exception) -> failure.compareAndSet(null, exception));
                records++;
            }
        }
        if (failure.get() != null) {
            throw failure.get();
        }
        System.out.println("{\"records\": " + records + ", \"payload_bytes\": " + bytes + "}");
    }

    private byte[] key() {
        length = 0;
        double skewed = Math.pow(random.nextDouble(), 6);
        return put("user-").digits((long) (skewed * 1_000_000), 8).bytes();
    }

    private byte[] small(long id) {
        length = 0;
        begin(id);
        return put(",\"s\":\"").hex(8).put("\"}").bytes();
    }

    private byte[] medium(long id) {
        length = 0;
        begin(id);
        put(",\"ua\":\"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/").digits(90 + random.nextInt(40), 3);
        put(".0.").digits(random.nextInt(6000), 4).put(".1 Safari/537.36\",\"session\":\"").hex(32);
        put("\",\"ref\":\"shop/p/").digits(random.nextInt(5000), 4).put("?utm=").hex(8);
        put("\",\"items\":[");
        for (int i = 0; i < 5; i++) {
            put(i == 0 ? "{\"sku\":\"SKU-" : ",{\"sku\":\"SKU-").digits(random.nextInt(10_000_000), 7);
            put("\",\"qty\":").digits(1 + random.nextInt(5), 1).put(",\"price\":").digits(random.nextInt(500), 3);
            put(".").digits(random.nextInt(100), 2).put("}");
        }
        put("],\"tags\":[\"");
        for (int i = 0; i < 6; i++) {
            put(i == 0 ? "" : "\",\"").put(EVENTS[random.nextInt(EVENTS.length)]);
        }
        put("\"],\"trace\":\"");
        return hex(MEDIUM_BYTES - length).put("\"}").bytes();
    }

    private void begin(long id) {
        put("{\"id\":").digits(1_000_000 + id, 8).put(",\"uid\":").digits(random.nextInt(1_000_000), 6);
        put(",\"ev\":\"").put(EVENTS[random.nextInt(EVENTS.length)]);
        put("\",\"page\":\"/p/").digits((long) (random.nextDouble() * random.nextDouble() * 5000), 4);
        put("\",\"v\":").digits(random.nextInt(100), 2).put(".").digits(random.nextInt(10_000), 4);
    }

    private byte[] bytes() {
        return Arrays.copyOf(text, length);
    }

    private ProduceMany put(String words) {
        byte[] bytes = words.getBytes(StandardCharsets.ISO_8859_1);
        System.arraycopy(bytes, 0, text, length, bytes.length);
        length += bytes.length;
        return this;
    }

    private ProduceMany digits(long value, int width) {
        for (int i = width - 1; i >= 0; i--) {
            text[length + i] = (byte) ('0' + value % 10);
            value /= 10;
        }
        length += width;
        return this;
    }

    private ProduceMany hex(int width) {
        long bits = 0;
        for (int i = 0; i < width; i++) {
            if (i % 16 == 0) {
                bits = random.nextLong();
            }
            text[length++] = (byte) "0123456789abcdef".charAt((int) (bits & 15));
            bits >>>= 4;
        }
        return this;
    }
}
