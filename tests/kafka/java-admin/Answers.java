import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnsupportedVersionException;

/** What the Admin API says of a cluster, as values for JSON. */
final class Answers {
    private static final long GIVE_UP_MS = 90_000;
    private static final long PAUSE_MS = 700;
    private static final int ENOUGH_ALIKE = 12;

    private final Admin admin;

    Answers(Admin admin) {
        this.admin = admin;
    }

    /** The answers once they no longer change. */
    Map<String, Object> settled() throws Exception {
        return settled(null);
    }

    /**
     * The answers once they no longer change and each group has reached its members. A member whose client failed is
     * never reached, so answers that stayed the same for some seconds are enough too.
     */
    Map<String, Object> settled(Map<String, Integer> members) throws Exception {
        Map<String, Object> before = Map.of();
        int alike = 0;
        for (long giveUp = System.currentTimeMillis() + GIVE_UP_MS; ; Thread.sleep(PAUSE_MS)) {
            Map<String, Object> now = all();
            alike = now.equals(before) ? alike + 1 : 0;
            if (alike > 0 && (alike >= ENOUGH_ALIKE || members == null || isReached(now, members))) {
                return now;
            }
            if (System.currentTimeMillis() > giveUp) {
                now.put("unsettled", unsettled(before, now));
                return now;
            }
            before = now;
        }
    }

    /** Groups that changed between two answers. A broker may begin epochs of a group without end. */
    @SuppressWarnings("unchecked")
    private static List<Object> unsettled(Map<String, Object> before, Map<String, Object> now) {
        List<Object> names = new ArrayList<>();
        for (Map.Entry<String, Object> answer : now.entrySet()) {
            if (answer.getKey().equals("groups")) {
                for (Map<String, Object> group : (Collection<Map<String, Object>>) answer.getValue()) {
                    if (!((Collection<?>) before.get("groups")).contains(group)) {
                        names.add(group.get("group"));
                    }
                }
            } else if (!Objects.equals(answer.getValue(), before.get(answer.getKey()))) {
                throw new IllegalStateException("the cluster does not settle: " + answer);
            }
        }
        return names;
    }

    @SuppressWarnings("unchecked")
    private static boolean isReached(Map<String, Object> answers, Map<String, Integer> members) {
        List<Map<String, Object>> groups = new ArrayList<>();
        groups.addAll((Collection<Map<String, Object>>) answers.get("groups"));
        if (answers.get("share_groups") != null) {
            groups.addAll((Collection<Map<String, Object>>) answers.get("share_groups"));
        }
        for (Map<String, Object> group : groups) {
            int wanted = members.getOrDefault((String) group.get("group"), 0);
            int found = ((Collection<?>) group.get("members")).size();
            if (found != wanted || !List.of("Stable", "Empty").contains(group.get("state"))) {
                return false;
            }
        }
        long known = groups.stream().filter(group -> members.containsKey(group.get("group"))).count();
        return known == members.size();
    }

    private Map<String, Object> all() throws Exception {
        Map<String, Object> found = new TreeMap<>();
        found.put("topics", topics());
        found.put("settings", settings());
        found.put("features", features());
        found.put("brokers", brokers());
        found.put("directories", directories());
        found.put("groups", groups());
        found.put("share_groups", shareGroups());
        found.put("transactions", transactions());
        found.put("high_watermark", admin.describeMetadataQuorum().quorumInfo().get().highWatermark());
        return found;
    }

    private Map<String, Object> topics() throws Exception {
        Collection<String> names = admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();
        Map<String, Object> found = new TreeMap<>();
        for (TopicDescription topic : admin.describeTopics(names).allTopicNames().get().values()) {
            List<Object> partitions = new ArrayList<>();
            for (TopicPartitionInfo partition : topic.partitions()) {
                partitions.add(Map.of(
                    "partition", partition.partition(),
                    "leader", partition.leader() == null ? -1 : partition.leader().id(),
                    "replicas", ids(partition.replicas()),
                    "isr", ids(partition.isr()),
                    "eligible_leader_replicas", partition.elr() == null ? List.of() : ids(partition.elr()),
                    "last_known_elr", partition.lastKnownElr() == null ? List.of() : ids(partition.lastKnownElr())));
            }
            found.put(topic.name(), Map.of("topic_id", topic.topicId().toString(), "partitions", partitions));
        }
        return found;
    }

    /** By resource type and name, "topic orders": the settings that were made for it. Secrets are null. */
    private Map<String, Object> settings() throws Exception {
        List<ConfigResource> resources = new ArrayList<>();
        for (String name : admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get()) {
            resources.add(new ConfigResource(ConfigResource.Type.TOPIC, name));
        }
        resources.add(new ConfigResource(ConfigResource.Type.BROKER, ""));
        resources.add(new ConfigResource(ConfigResource.Type.BROKER, "1"));
        for (String name : List.of("classic-1", "classic-2", "new-1", "new-2", "share-1", "both")) {
            resources.add(new ConfigResource(ConfigResource.Type.GROUP, name));
        }
        for (String name : List.of("m1", "m2")) {
            resources.add(new ConfigResource(ConfigResource.Type.CLIENT_METRICS, name));
        }
        Map<String, Object> found = new TreeMap<>();
        admin.describeConfigs(resources).all().get().forEach((resource, config) -> {
            Map<String, Object> made = new TreeMap<>();
            for (ConfigEntry entry : config.entries()) {
                if (isMade(resource, entry)) {
                    made.put(entry.name(), entry.value());
                }
            }
            if (!made.isEmpty()) {
                String type = resource.type().name().toLowerCase().replace('_', '-');
                found.put(type + " " + resource.name(), made);
            }
        });
        return found;
    }

    private static boolean isMade(ConfigResource resource, ConfigEntry entry) {
        switch (resource.type()) {
            case TOPIC:
                return entry.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG;
            case BROKER:
                return entry.source() == (resource.isDefault()
                    ? ConfigEntry.ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
                    : ConfigEntry.ConfigSource.DYNAMIC_BROKER_CONFIG);
            case GROUP:
                return entry.source() == ConfigEntry.ConfigSource.DYNAMIC_GROUP_CONFIG;
            default:
                return entry.source() == ConfigEntry.ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG;
        }
    }

    private Map<String, Object> features() throws Exception {
        Map<String, Object> found = new TreeMap<>();
        admin.describeFeatures().featureMetadata().get().finalizedFeatures()
            .forEach((name, range) -> found.put(name, (int) range.maxVersionLevel()));
        return found;
    }

    private List<Object> brokers() throws Exception {
        List<Object> found = new ArrayList<>();
        for (Node node : admin.describeCluster(new DescribeClusterOptions().includeFencedBrokers(true)).nodes().get()) {
            Map<String, Object> broker = new TreeMap<>();
            broker.put("broker", node.id());
            broker.put("host", node.host());
            broker.put("port", node.port());
            broker.put("rack", node.rack());
            broker.put("is_fenced", node.isFenced());
            found.add(broker);
        }
        return found;
    }

    /** Path of the directory by topic partition, "orders-0". */
    private Map<String, Object> directories() throws Exception {
        Map<String, Object> found = new TreeMap<>();
        Map<String, LogDirDescription> directories = admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1);
        directories.forEach((path, directory) ->
            directory.replicaInfos().forEach((partition, info) -> found.put(partition.toString(), path)));
        return found;
    }

    private List<Object> groups() throws Exception {
        List<String> names = new ArrayList<>();
        for (GroupListing group : admin.listGroups().all().get()) {
            GroupType type = group.type().orElse(GroupType.UNKNOWN);
            if (type == GroupType.CLASSIC || type == GroupType.CONSUMER) {
                names.add(group.groupId());
            }
        }
        names.sort(Comparator.naturalOrder());
        Map<String, ConsumerGroupDescription> described = admin.describeConsumerGroups(names).all().get();
        List<Object> found = new ArrayList<>();
        for (String name : names) {
            ConsumerGroupDescription group = described.get(name);
            Map<String, Object> shown = new TreeMap<>();
            shown.put("group", name);
            shown.put("type", group.type().toString());
            shown.put("state", group.groupState().toString());
            shown.put("assignor", group.partitionAssignor());
            shown.put("epoch", group.groupEpoch().orElse(null));
            List<Map<String, Object>> members = new ArrayList<>();
            for (MemberDescription member : group.members()) {
                Map<String, Object> one = new TreeMap<>();
                one.put("member_id", member.consumerId());
                one.put("instance_id", member.groupInstanceId().orElse(null));
                one.put("client_id", member.clientId());
                one.put("host", member.host());
                one.put("assignment", member.assignment().topicPartitions().stream().map(TopicPartition::toString)
                    .sorted().collect(Collectors.toList()));
                members.add(one);
            }
            members.sort(Comparator.comparing(member -> (String) member.get("member_id")));
            shown.put("members", members);
            Map<String, Object> offsets = new TreeMap<>();
            Map<TopicPartition, OffsetAndMetadata> committed =
                admin.listConsumerGroupOffsets(name).partitionsToOffsetAndMetadata().get();
            committed.forEach((partition, commit) -> {
                if (commit != null) {
                    Map<String, Object> one = new TreeMap<>();
                    one.put("offset", commit.offset());
                    one.put("leader_epoch", commit.leaderEpoch().orElse(null));
                    one.put("metadata", commit.metadata());
                    offsets.put(partition.toString(), one);
                }
            });
            shown.put("offsets", offsets);
            found.add(shown);
        }
        return found;
    }

    /** Null after the feature was taken back: the broker does not describe share groups then. */
    private List<Object> shareGroups() throws Exception {
        List<String> names = new ArrayList<>();
        for (GroupListing group : admin.listGroups().all().get()) {
            if (group.type().orElse(GroupType.UNKNOWN) == GroupType.SHARE) {
                names.add(group.groupId());
            }
        }
        List<Object> found = new ArrayList<>();
        if (names.isEmpty()) {
            return found;
        }
        Map<String, ShareGroupDescription> described;
        try {
            described = admin.describeShareGroups(names).all().get();
        } catch (ExecutionException e) {
            if (e.getCause() instanceof UnsupportedVersionException) {
                return null;
            }
            throw e;
        }
        for (String name : names) {
            ShareGroupDescription group = described.get(name);
            List<String> members = group.members().stream().map(member -> member.consumerId()).sorted()
                .collect(Collectors.toList());
            found.add(new TreeMap<>(Map.of(
                "group", name, "state", group.groupState().toString(), "epoch", group.groupEpoch(), "members", members)));
        }
        return found;
    }

    private List<Object> transactions() throws Exception {
        List<String> names = new ArrayList<>();
        for (TransactionListing transaction : admin.listTransactions().all().get()) {
            names.add(transaction.transactionalId());
        }
        names.sort(Comparator.naturalOrder());
        Map<String, TransactionDescription> described = admin.describeTransactions(names).all().get();
        List<Object> found = new ArrayList<>();
        for (String name : names) {
            TransactionDescription transaction = described.get(name);
            Map<String, Object> shown = new TreeMap<>();
            shown.put("transactional_id", name);
            shown.put("state", transaction.state().toString());
            shown.put("producer_id", transaction.producerId());
            shown.put("producer_epoch", transaction.producerEpoch());
            shown.put("timeout_ms", transaction.transactionTimeoutMs());
            shown.put("partitions", transaction.topicPartitions().stream().map(TopicPartition::toString).sorted()
                .collect(Collectors.toList()));
            found.add(shown);
        }
        return found;
    }

    private static List<Integer> ids(List<Node> nodes) {
        return nodes.stream().map(Node::id).collect(Collectors.toList());
    }
}
