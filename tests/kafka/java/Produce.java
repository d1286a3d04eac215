import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Fills topics named after a seed, with settings and records that follow from it. What is chosen goes to stdout, a line
 * of JSON each, so that a test that fails can be told apart from its neighbours.
 *
 * plain: producers of every codec · stamped: LogAppendTime, so the broker writes the timestamps · recoded: the broker
 * compresses with a codec of its own · transactions: committed, aborted, fenced and left open, several at a time · big:
 * records of one to two megabytes · trimmed: records deleted from the front.
 */
public final class Produce {
    private static final String[] CODECS = Chance.CODECS;

    private final ObjectMapper json = new ObjectMapper();
    private final String servers;
    private final long seed;
    private final Random random;
    private final Chance chance;
    private final List<String> failures = Collections.synchronizedList(new ArrayList<>());

    private Produce(String servers, long seed) {
        this.servers = servers;
        this.seed = seed;
        this.random = new Random(seed);
        this.chance = new Chance(random);
    }

    public static void main(String[] arguments) throws Exception {
        for (int i = 1; i < arguments.length; i++) {
            new Produce(arguments[0], Long.parseLong(arguments[i])).run();
        }
        // Not System.exit: a transaction is to be left open, and closing its producer would end it.
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private void run() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            List<NewTopic> topics = List.of(
                topic("plain", 3, Map.of()),
                topic("stamped", 2, Map.of("message.timestamp.type", "LogAppendTime")),
                topic("recoded", 1, Map.of("compression.type", CODECS[1 + random.nextInt(4)])),
                topic("transactions", 2, Map.of()),
                topic("big", 1, Map.of("max.message.bytes", "4000000", "internal.segment.bytes", "6000000")),
                topic("trimmed", 1, Map.of()));
            admin.createTopics(topics).all().get();
            awaitLeaders(admin, topics);
            for (String codec : CODECS) {
                produce("plain", 3, codec, 150 + random.nextInt(250));
                produce("stamped", 2, codec, 50 + random.nextInt(100));
            }
            produce("recoded", 1, chance.pick(CODECS), 100 + random.nextInt(200));
            produce("recoded", 1, chance.pick(CODECS), 100 + random.nextInt(200));
            produceTransactions();
            produceBig();
            produce("trimmed", 1, chance.pick(CODECS), 300);
            long before = 20 + random.nextInt(200);
            TopicPartition partition = new TopicPartition(name("trimmed"), 0);
            admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(before))).all().get();
            say(Map.of("topic", partition.topic(), "deleted_before", before));
        }
        if (!failures.isEmpty()) {
            throw new IllegalStateException(failures.size() + " records were not taken, first " + failures.get(0));
        }
    }

    /** A producer that meets a partition before its leader leads may wait for it until its delivery times out. */
    private static void awaitLeaders(Admin admin, List<NewTopic> topics) throws Exception {
        Map<TopicPartition, OffsetSpec> partitions = new HashMap<>();
        for (NewTopic topic : topics) {
            for (int i = 0; i < topic.numPartitions(); i++) {
                partitions.put(new TopicPartition(topic.name(), i), OffsetSpec.latest());
            }
        }
        for (long giveUp = System.currentTimeMillis() + 60_000; ; Thread.sleep(50)) {
            try {
                admin.listOffsets(partitions).all().get();
                return;
            } catch (ExecutionException e) {
                if (!(e.getCause() instanceof RetriableException) || System.currentTimeMillis() > giveUp) {
                    throw e;
                }
            }
        }
    }

    private String name(String kind) {
        return kind + "-" + seed;
    }

    private NewTopic topic(String kind, int partitions, Map<String, String> more) throws Exception {
        Map<String, String> settings = new TreeMap<>();
        settings.put("retention.ms", "-1");
        settings.put("message.timestamp.after.max.ms", String.valueOf(Long.MAX_VALUE));
        settings.put("internal.segment.bytes", String.valueOf(20_000 + random.nextInt(60_000)));
        settings.put("index.interval.bytes", String.valueOf(1 << (8 + random.nextInt(5))));
        settings.put("max.message.bytes", "1048588");
        settings.putAll(more);
        say(Map.of("topic", name(kind), "settings", settings));
        return new NewTopic(name(kind), partitions, (short) 1).configs(settings);
    }

    private Map<String, Object> settings(String codec) {
        Map<String, Object> settings = new TreeMap<>();
        settings.put("bootstrap.servers", servers);
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        settings.put("compression.type", codec);
        if (random.nextBoolean()) {
            switch (codec) {
                case "gzip" -> settings.put("compression.gzip.level", String.valueOf(1 + random.nextInt(9)));
                case "lz4" -> settings.put("compression.lz4.level", String.valueOf(1 + random.nextInt(17)));
                case "zstd" -> settings.put("compression.zstd.level", String.valueOf(random.nextInt(20) - 5));
                default -> { }
            }
        }
        settings.put("linger.ms", chance.pick("0", "5", "50", "1000"));
        settings.put("batch.size", chance.pick("1", "300", "2000", "16384", "19000"));
        settings.put("retry.backoff.ms", "20");
        settings.put("acks", "all");
        settings.put("enable.idempotence", chance.pick("true", "false"));
        settings.put("max.request.size", "4000000");
        settings.put("request.timeout.ms", "10000");
        settings.put("delivery.timeout.ms", "30000");
        return settings;
    }

    private KafkaProducer<byte[], byte[]> producer(String kind, Map<String, Object> settings) throws Exception {
        say(Map.of("topic", name(kind), "producer", settings));
        return new KafkaProducer<>(settings);
    }

    private void produce(String kind, int partitions, String codec, int count) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(kind, settings(codec))) {
            for (int i = 0; i < count; i++) {
                send(producer, record(kind, random.nextInt(partitions)));
                if (random.nextInt(60) == 0) {
                    producer.flush();
                }
            }
            producer.flush();
        }
    }

    private void send(KafkaProducer<byte[], byte[]> producer, ProducerRecord<byte[], byte[]> record) {
        producer.send(record, (metadata, exception) -> {
            if (exception != null) {
                failures.add(record.topic() + ": " + exception);
            }
        });
    }

    /** Several producers take turns in the same partitions, so that their transactions overlap. */
    private void produceTransactions() throws Exception {
        int count = 3 + random.nextInt(2);
        List<KafkaProducer<byte[], byte[]>> producers = new ArrayList<>();
        List<Map<String, Object>> allSettings = new ArrayList<>();
        boolean[] open = new boolean[count];
        for (int i = 0; i < count; i++) {
            Map<String, Object> settings = settings(chance.pick(CODECS));
            settings.put("enable.idempotence", "true");
            settings.put("transactional.id", name("id") + "-" + i);
            settings.put("transaction.timeout.ms", "900000");
            allSettings.add(settings);
            producers.add(producer("transactions", settings));
            producers.get(i).initTransactions();
        }
        for (int step = 0; step < 60; step++) {
            int i = random.nextInt(count);
            KafkaProducer<byte[], byte[]> producer = producers.get(i);
            if (!open[i]) {
                producer.beginTransaction();
                open[i] = true;
            }
            for (int n = random.nextInt(12); n >= 0; n--) {
                send(producer, record("transactions", random.nextInt(2)));
            }
            producer.flush();
            switch (random.nextInt(7)) {
                case 0, 1 -> {
                    producer.commitTransaction();
                    open[i] = false;
                }
                case 2, 3 -> {
                    producer.abortTransaction();
                    open[i] = false;
                }
                case 4 -> {
                    // A second producer of the same id: the coordinator fences the first and aborts what it had open.
                    producers.set(i, producer("transactions", allSettings.get(i)));
                    producers.get(i).initTransactions();
                    open[i] = false;
                }
                default -> { }
            }
        }
        produce("transactions", 2, chance.pick(CODECS), 40);
        for (int i = 0; i < count; i++) {
            KafkaProducer<byte[], byte[]> producer = producers.get(i);
            if (i > 0) { // the first one's, open or not, stays as it is
                if (open[i]) {
                    producer.commitTransaction();
                }
                producer.close(Duration.ofSeconds(10));
            } else if (!open[i]) {
                producer.beginTransaction();
                send(producer, record("transactions", 0));
                producer.flush();
            }
        }
        produce("transactions", 2, chance.pick(CODECS), 20);
    }

    private void produceBig() throws Exception {
        for (String codec : CODECS) {
            Map<String, Object> settings = settings(codec);
            settings.put("batch.size", chance.pick("16384", "3000000"));
            try (KafkaProducer<byte[], byte[]> producer = producer("big", settings)) {
                byte[] value = new byte[1_000_000 + random.nextInt(1_000_000)];
                if (random.nextBoolean()) {
                    random.nextBytes(value);
                } else {
                    for (int i = 0; i < value.length; i++) {
                        value[i] = (byte) "abcdefgh".charAt(i % 7 + (random.nextInt(50) == 0 ? 1 : 0));
                    }
                }
                send(producer, new ProducerRecord<>(name("big"), 0, timestamp(), null, value));
                send(producer, record("big", 0));
                producer.flush();
            }
        }
    }

    private ProducerRecord<byte[], byte[]> record(String kind, int partition) {
        return new ProducerRecord<>(
            name(kind), partition, timestamp(), chance.key(), chance.value(), Arrays.asList(chance.headers()));
    }

    private Long timestamp() {
        return random.nextInt(8) == 0 ? null : Long.valueOf(chance.timestamp());
    }

    private void say(Map<String, ?> line) throws Exception {
        Map<String, Object> shown = new HashMap<>(line);
        shown.put("seed", seed);
        System.out.println(json.writeValueAsString(shown));
    }
}
