import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.token.delegation.DelegationToken;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Operates a cluster at random, and writes what its Admin API says of it at the end to a file, as JSON.
 *
 * <p>Arguments: servers, seed, number of steps, file with the settings of clients, file for the answers. All choices
 * follow from the seed; each is a line on stdout, and so is each refusal. Members of groups and open transactions are
 * left behind: the process ends without closing them.
 */
public final class OperateCluster {
    private static final String[][] TOPIC_SETTINGS = {
        {"retention.ms", "-1", "604800000", "86400000"},
        {"retention.bytes", "-1", "1073741824"},
        {"cleanup.policy", "delete", "compact", "compact,delete"},
        {"min.insync.replicas", "1", "2"},
        {"segment.bytes", "1048576", "16777216"},
        {"max.message.bytes", "100000", "2000000"},
        {"message.timestamp.type", "CreateTime", "LogAppendTime"},
        {"compression.type", "producer", "zstd", "lz4"},
    };
    private static final String[][] BROKER_SETTINGS = {
        {"log.retention.ms", "3600000", "-1"},
        {"background.threads", "2", "3"},
        {"message.max.bytes", "3000000", "5000000"},
        {"ssl.keystore.password", "keystore-s3cr3t-one", "keystore-s3cr3t-two"},
        {"ssl.key.password", "key-s3cr3t-one", "key-s3cr3t-two"},
        {"listener.name.plaintext.ssl.truststore.password", "trust-s3cr3t-one", "trust-s3cr3t-two"},
    };
    private static final String[][] GROUP_SETTINGS = {
        {"consumer.session.timeout.ms", "45000", "50000"},
        {"share.session.timeout.ms", "45000", "50000"},
        {"share.auto.offset.reset", "earliest", "latest"},
    };
    private static final String[][] FEATURES = {
        {"eligible.leader.replicas.version", "0", "1"},
        {"transaction.version", "0", "1", "2"},
        {"share.version", "0", "1", "2"},
        {"streams.version", "0", "1"},
    };

    private final ObjectMapper json = new ObjectMapper();
    private final Map<String, Object> settings = new TreeMap<>();
    private final Random random;
    private final Admin admin;
    private final Groups groups;
    private final Map<String, Integer> topics = new TreeMap<>();
    private final Set<String> transactionalIds = new TreeSet<>();
    private final Set<String> users = new TreeSet<>();
    private final List<Map<String, Object>> credentials = new ArrayList<>();
    private final List<String> tokens = new ArrayList<>();
    private final List<KafkaProducer<byte[], byte[]>> open = new ArrayList<>();
    private final List<DelegationToken> issued = new ArrayList<>();
    private int names = 0;

    private OperateCluster(String servers, long seed, File clients) throws Exception {
        Properties given = new Properties();
        try (java.io.InputStream in = new java.io.FileInputStream(clients)) {
            given.load(in);
        }
        given.forEach((name, value) -> settings.put((String) name, value));
        settings.put("bootstrap.servers", servers);
        random = new Random(seed);
        admin = Admin.create(settings);
        groups = new Groups(settings, random);
    }

    public static void main(String[] arguments) throws Exception {
        OperateCluster operated =
            new OperateCluster(arguments[0], Long.parseLong(arguments[1]), new File(arguments[3]));
        operated.run(Integer.parseInt(arguments[2]), new File(arguments[4]));
        System.out.flush();
        Runtime.getRuntime().halt(0);  // not System.exit: members and transactions are left as they are
    }

    private void run(int steps, File answers) throws Exception {
        Map<String, Step> all = new TreeMap<>();
        all.put("create", this::create);
        all.put("delete", this::delete);
        all.put("create again", this::createAgain);
        all.put("more partitions", this::morePartitions);
        all.put("topic setting", () -> setting(ConfigResource.Type.TOPIC, anyTopic(), TOPIC_SETTINGS));
        all.put("topic setting 2", () -> setting(ConfigResource.Type.TOPIC, anyTopic(), TOPIC_SETTINGS));
        all.put("broker setting", () -> setting(ConfigResource.Type.BROKER, pick("", "1"), BROKER_SETTINGS));
        all.put("group setting", () -> setting(ConfigResource.Type.GROUP, groups.anyName(), GROUP_SETTINGS));
        all.put("client metrics", this::clientMetrics);
        all.put("credential", this::credential);
        all.put("no credential", this::noCredential);
        all.put("feature", this::feature);
        all.put("quota", this::quota);
        all.put("access rule", this::accessRule);
        all.put("token", this::token);
        all.put("no token", this::noToken);
        all.put("produce", () -> produce(null, false));
        all.put("transaction", () -> produce(pick("tx-a", "tx-b", "tx-c"), random.nextBoolean()));
        all.put("transaction left open", () -> produce("tx-open-" + names++, true));
        all.put("join", () -> groups.join(anyTopic(), topics.keySet()));
        all.put("join 2", () -> groups.join(anyTopic(), topics.keySet()));
        all.put("leave", groups::leave);
        all.put("commit", this::commit);
        all.put("no commit", this::noCommit);
        all.put("delete group", this::deleteGroup);
        create();
        create();
        groups.join(anyTopic(), topics.keySet());
        List<String> kinds = new ArrayList<>(all.keySet());
        for (int i = 0; i < steps; i++) {
            String kind = kinds.get(random.nextInt(kinds.size()));
            try {
                say(kind);
                all.get(kind).run();
            } catch (ExecutionException e) {
                say("refused: " + e.getCause().getClass().getSimpleName() + ": " + e.getCause().getMessage());
            } catch (KafkaException e) {  // a producer after a feature was taken back
                say("refused: " + e.getClass().getSimpleName() + ": " + e.getMessage());
            }
        }
        Map<String, Object> found = new Answers(admin).settled(groups.members());
        found.put("credentials", credentials);
        found.put("tokens", tokens);
        json.writeValue(answers, found);
    }

    private interface Step {
        void run() throws Exception;
    }

    private void create() throws Exception {
        create("t" + names++);
    }

    private void create(String name) throws Exception {
        Map<String, String> chosen = new TreeMap<>();
        for (int i = random.nextInt(3); i > 0; i--) {
            String[] setting = TOPIC_SETTINGS[random.nextInt(TOPIC_SETTINGS.length)];
            chosen.put(setting[0], anyValue(setting));
        }
        int partitions = 1 + random.nextInt(4);
        say("  " + name + " " + partitions + " " + chosen);
        admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1).configs(chosen))).all().get();
        topics.put(name, partitions);
    }

    private String delete() throws Exception {
        if (topics.size() < 2) {
            return null;
        }
        String name = anyTopic();
        say("  " + name);
        admin.deleteTopics(List.of(name)).all().get();
        topics.remove(name);
        return name;
    }

    private void createAgain() throws Exception {
        String name = delete();
        if (name != null) {
            create(name);
        }
    }

    private void morePartitions() throws Exception {
        String name = anyTopic();
        int partitions = topics.get(name) + 1 + random.nextInt(2);
        say("  " + name + " " + partitions);
        admin.createPartitions(Map.of(name, NewPartitions.increaseTo(partitions))).all().get();
        topics.put(name, partitions);
    }

    private void setting(ConfigResource.Type type, String resource, String[][] known) throws Exception {
        String[] setting = known[random.nextInt(known.length)];
        boolean isRemoved = random.nextInt(4) == 0;
        String value = anyValue(setting);
        say("  " + type + " " + resource + " " + setting[0] + (isRemoved ? " removed" : ""));
        alter(type, resource, setting[0], value, isRemoved);
    }

    private void alter(ConfigResource.Type type, String resource, String name, String value, boolean isRemoved)
        throws Exception {
        AlterConfigOp.OpType kind = isRemoved ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET;
        Collection<AlterConfigOp> changes = List.of(new AlterConfigOp(new ConfigEntry(name, value), kind));
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(type, resource), changes)).all().get();
    }

    private void clientMetrics() throws Exception {
        String name = pick("m1", "m2");
        alter(ConfigResource.Type.CLIENT_METRICS, name, "interval.ms", pick("1000", "5000"), random.nextInt(4) == 0);
    }

    private void credential() throws Exception {
        String user = "user-" + random.nextInt(4);
        ScramMechanism mechanism =
            random.nextBoolean() ? ScramMechanism.SCRAM_SHA_256 : ScramMechanism.SCRAM_SHA_512;
        byte[] salt = new byte[16];
        random.nextBytes(salt);
        String password = "passw0rd-" + random.nextInt(1_000_000_000);
        ScramCredentialInfo info = new ScramCredentialInfo(mechanism, 4096 + random.nextInt(1000));
        admin.alterUserScramCredentials(List.of(
            new UserScramCredentialUpsertion(user, info, password.getBytes("UTF-8"), salt))).all().get();
        users.add(user + " " + mechanism.name());
        credentials.add(Map.of("mechanism", mechanism.mechanismName(), "iterations", info.iterations(),
            "password", password, "salt", Base64.getEncoder().encodeToString(salt)));
    }

    private void noCredential() throws Exception {
        if (!users.isEmpty()) {
            String[] words = any(users).split(" ");
            users.remove(words[0] + " " + words[1]);
            admin.alterUserScramCredentials(List.of(
                new UserScramCredentialDeletion(words[0], ScramMechanism.valueOf(words[1])))).all().get();
        }
    }

    private void feature() throws Exception {
        String[] feature = FEATURES[random.nextInt(FEATURES.length)];
        short level = Short.parseShort(anyValue(feature));
        say("  " + feature[0] + " " + level);
        List<FeatureUpdate.UpgradeType> types =
            List.of(FeatureUpdate.UpgradeType.UPGRADE, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE);
        for (FeatureUpdate.UpgradeType type : types.subList(level == 0 ? 1 : 0, 2)) {
            try {
                admin.updateFeatures(Map.of(feature[0], new FeatureUpdate(level, type)), new UpdateFeaturesOptions())
                    .all().get();
                return;
            } catch (ExecutionException e) {
                say("  refused: " + e.getCause().getMessage());
            }
        }
    }

    private void quota() throws Exception {
        ClientQuotaEntity entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, pick("c1", "c2")));
        Double value = random.nextInt(3) == 0 ? null : 1000.0 * (1 + random.nextInt(9));
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity,
            List.of(new ClientQuotaAlteration.Op("producer_byte_rate", value))))).all().get();
    }

    private void accessRule() throws Exception {
        AclBinding binding = new AclBinding(new ResourcePattern(ResourceType.TOPIC, pick("t0", "t1"), PatternType.LITERAL),
            new AccessControlEntry("User:" + pick("alice", "bob"), "*", AclOperation.READ, AclPermissionType.ALLOW));
        if (random.nextInt(3) == 0) {
            admin.deleteAcls(List.of(binding.toFilter())).all().get();
        } else {
            admin.createAcls(List.of(binding)).all().get();
        }
    }

    private void token() throws Exception {
        DelegationToken token = admin.createDelegationToken().delegationToken().get();
        issued.add(token);
        tokens.add(token.tokenInfo().tokenId());
        tokens.add(token.hmacAsBase64String());
    }

    private void noToken() throws Exception {
        if (!issued.isEmpty()) {
            DelegationToken token = issued.remove(random.nextInt(issued.size()));
            admin.expireDelegationToken(token.hmac(),
                new org.apache.kafka.clients.admin.ExpireDelegationTokenOptions().expiryTimePeriodMs(-1))
                .expiryTimestamp().get();
        }
    }

    private void produce(String transactionalId, boolean isLeftOpen) throws Exception {
        Map<String, Object> chosen = new TreeMap<>(settings);
        chosen.put("key.serializer", ByteArraySerializer.class.getName());
        chosen.put("value.serializer", ByteArraySerializer.class.getName());
        chosen.put("max.block.ms", "10000");
        if (transactionalId != null) {
            chosen.put("transactional.id", transactionalId);
            chosen.put("transaction.timeout.ms", 60_000 + random.nextInt(1000));
            transactionalIds.add(transactionalId);
        }
        String name = anyTopic();
        TopicPartition partition = new TopicPartition(name, random.nextInt(topics.get(name)));
        int records = 1 + random.nextInt(20);
        boolean withOffsets = random.nextBoolean();
        boolean isAborted = random.nextInt(3) == 0;
        say("  " + transactionalId + " " + partition + " " + records + (withOffsets ? " with offsets" : "")
            + (isLeftOpen ? " left open" : isAborted ? " aborted" : ""));
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(chosen);
        if (transactionalId != null) {
            producer.initTransactions();
            producer.beginTransaction();
        }
        for (int i = 0; i < records; i++) {
            producer.send(new ProducerRecord<>(name, partition.partition(), ("k" + i).getBytes(), "v".getBytes()));
        }
        producer.flush();
        if (transactionalId != null && withOffsets) {
            producer.sendOffsetsToTransaction(
                Map.of(partition, new OffsetAndMetadata(records, Optional.of(0), "in " + transactionalId)),
                new ConsumerGroupMetadata("group-of-" + transactionalId));
        }
        if (transactionalId != null && isLeftOpen) {
            open.add(producer);
            return;
        }
        if (transactionalId != null && isAborted) {
            producer.abortTransaction();
        } else if (transactionalId != null) {
            producer.commitTransaction();
        }
        producer.close();
    }

    private void commit() throws Exception {
        String name = anyTopic();
        Map<TopicPartition, OffsetAndMetadata> offsets = Map.of(
            new TopicPartition(name, random.nextInt(topics.get(name))),
            new OffsetAndMetadata(random.nextInt(100), pickEpoch(), pick("", "note", "größe")));
        admin.alterConsumerGroupOffsets(pick("simple-1", "simple-2"), offsets).all().get();
    }

    private void noCommit() throws Exception {
        String group = pick("simple-1", "simple-2");
        Set<TopicPartition> known =
            admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().keySet();
        if (!known.isEmpty()) {
            admin.deleteConsumerGroupOffsets(group, Set.of(known.iterator().next())).all().get();
        }
    }

    private void deleteGroup() throws Exception {
        String group = random.nextInt(3) == 0 ? groups.anyName() : pick("simple-1", "simple-2", "group-of-tx-a");
        say("  " + group);
        admin.deleteConsumerGroups(List.of(group)).all().get();
    }

    private String anyTopic() {
        return any(topics.keySet());
    }

    private String any(Collection<String> values) {
        return new ArrayList<>(values).get(random.nextInt(values.size()));
    }

    private String anyValue(String[] nameAndValues) {
        return nameAndValues[1 + random.nextInt(nameAndValues.length - 1)];
    }

    private Optional<Integer> pickEpoch() {
        return random.nextBoolean() ? Optional.of(0) : Optional.empty();
    }

    private String pick(String... values) {
        return values[random.nextInt(values.length)];
    }

    private void say(String line) {
        System.out.println(line);
    }
}
