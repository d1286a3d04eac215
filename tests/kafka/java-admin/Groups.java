import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of groups, each in a thread of its own, until it leaves or the process ends. The name of a group says which
 * protocol its members use; a group named "both" has members of either, one after the other.
 */
final class Groups {
    private static final String[] NAMES = {"classic-1", "classic-2", "new-1", "new-2", "share-1", "both"};

    private final Map<String, Object> settings;
    private final Random random;
    private final List<Member> members = new ArrayList<>();
    private int joined = 0;

    Groups(Map<String, Object> settings, Random random) {
        this.settings = settings;
        this.random = random;
    }

    String anyName() {
        return NAMES[random.nextInt(NAMES.length)];
    }

    /** Members that have not left, by group. */
    Map<String, Integer> members() {
        Map<String, Integer> counted = new TreeMap<>();
        members.forEach(member -> counted.merge(member.group, 1, Integer::sum));
        return counted;
    }

    void join(String topic, Collection<String> topics) throws Exception {
        String group = anyName();
        boolean isNew = group.startsWith("new") || (group.equals("both") && random.nextBoolean());
        if (group.equals("both") && members().containsKey(group)) {
            isNew = members.stream().anyMatch(member -> member.group.equals("both") && member.isNew);
        }
        Map<String, Object> chosen = new HashMap<>(settings);
        chosen.put("group.id", group);
        chosen.put("client.id", "client-" + joined++);
        chosen.put("key.deserializer", ByteArrayDeserializer.class.getName());
        chosen.put("value.deserializer", ByteArrayDeserializer.class.getName());
        if (!group.startsWith("share")) {
            chosen.put("auto.offset.reset", "earliest");
            chosen.put("auto.commit.interval.ms", "100");
            chosen.put("group.protocol", isNew ? "consumer" : "classic");
            if (random.nextInt(3) == 0) {
                chosen.put("group.instance.id", "static-" + joined);
            }
            if (isNew && random.nextBoolean()) {
                chosen.put("group.remote.assignor", random.nextBoolean() ? "range" : "uniform");
            } else if (!isNew) {
                chosen.put("heartbeat.interval.ms", "200");
                chosen.put("session.timeout.ms", "45000");
            }
        }
        int kind = random.nextInt(3);
        List<String> wanted = kind == 0 ? new ArrayList<>(topics) : List.of(topic);
        boolean isPattern = kind == 2 && !group.startsWith("share");
        System.out.println("  " + group + (isNew ? " new" : "") + " " + (isPattern ? "pattern" : wanted));
        Member member = new Member(group, isNew, chosen, wanted, isPattern);
        members.add(member);
        member.start();
        Thread.sleep(random.nextInt(600));
    }

    void leave() throws Exception {
        if (!members.isEmpty()) {
            Member member = members.remove(random.nextInt(members.size()));
            System.out.println("  " + member.group);
            member.isLeaving = true;
            member.join(30_000);
        }
    }

    private static final class Member extends Thread {
        private final String group;
        private final boolean isNew;
        private final Map<String, Object> chosen;
        private final List<String> topics;
        private final boolean isPattern;
        private volatile boolean isLeaving = false;

        Member(String group, boolean isNew, Map<String, Object> chosen, List<String> topics, boolean isPattern) {
            this.group = group;
            this.isNew = isNew;
            this.chosen = chosen;
            this.topics = topics;
            this.isPattern = isPattern;
            setDaemon(true);
        }

        @Override
        public void run() {
            if (group.startsWith("share")) {
                share();
                return;
            }
            try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(chosen)) {
                if (isPattern && isNew) {
                    consumer.subscribe(new SubscriptionPattern("t[0-9]+"));
                } else if (isPattern) {
                    consumer.subscribe(Pattern.compile("t[0-9]+"));
                } else {
                    consumer.subscribe(topics);
                }
                while (!isLeaving) {
                    consumer.poll(Duration.ofMillis(50));
                }
            } catch (RuntimeException e) {
                System.out.println("  a member of " + group + " ended: " + e);
            }
        }

        private void share() {
            try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(chosen)) {
                consumer.subscribe(topics);
                while (!isLeaving) {
                    consumer.poll(Duration.ofMillis(50));
                }
            } catch (RuntimeException e) {
                System.out.println("  a member of " + group + " ended: " + e);
            }
        }
    }
}
