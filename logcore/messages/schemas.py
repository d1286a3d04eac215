"""The schemas of Kafka's messages as text, by family.

Made by `tests.kafka.message_schemas`; do not edit. `logcore.messages.known_messages` describes the text.
"""

CONSUMER_OFFSETS = """\
LegacyOffsetCommitKey coordinator-key 0 versions 0 flexible none
  group string 0
  topic string 0
  partition int32 0
OffsetCommitKey coordinator-key 1 versions 0 flexible none
  group string 0
  topic string 0
  partition int32 0
GroupMetadataKey coordinator-key 2 versions 0 flexible none
  group string 0
ConsumerGroupMetadataKey coordinator-key 3 versions 0 flexible none
  groupId string 0
ConsumerGroupPartitionMetadataKey coordinator-key 4 versions 0 flexible none
  groupId string 0
ConsumerGroupMemberMetadataKey coordinator-key 5 versions 0 flexible none
  groupId string 0
  memberId string 0
ConsumerGroupTargetAssignmentMetadataKey coordinator-key 6 versions 0 flexible none
  groupId string 0
ConsumerGroupTargetAssignmentMemberKey coordinator-key 7 versions 0 flexible none
  groupId string 0
  memberId string 0
ConsumerGroupCurrentMemberAssignmentKey coordinator-key 8 versions 0 flexible none
  groupId string 0
  memberId string 0
ShareGroupMemberMetadataKey coordinator-key 10 versions 0 flexible none
  groupId string 0
  memberId string 0
ShareGroupMetadataKey coordinator-key 11 versions 0 flexible none
  groupId string 0
ShareGroupTargetAssignmentMetadataKey coordinator-key 12 versions 0 flexible none
  groupId string 0
ShareGroupTargetAssignmentMemberKey coordinator-key 13 versions 0 flexible none
  groupId string 0
  memberId string 0
ShareGroupCurrentMemberAssignmentKey coordinator-key 14 versions 0 flexible none
  groupId string 0
  memberId string 0
ShareGroupStatePartitionMetadataKey coordinator-key 15 versions 0 flexible none
  groupId string 0
ConsumerGroupRegularExpressionKey coordinator-key 16 versions 0 flexible none
  groupId string 0
  regularExpression string 0
StreamsGroupMetadataKey coordinator-key 17 versions 0 flexible none
  groupId string 0
StreamsGroupMemberMetadataKey coordinator-key 19 versions 0 flexible none
  groupId string 0
  memberId string 0
StreamsGroupTargetAssignmentMetadataKey coordinator-key 20 versions 0 flexible none
  groupId string 0
StreamsGroupTargetAssignmentMemberKey coordinator-key 21 versions 0 flexible none
  groupId string 0
  memberId string 0
StreamsGroupCurrentMemberAssignmentKey coordinator-key 22 versions 0 flexible none
  groupId string 0
  memberId string 0
StreamsGroupTopologyKey coordinator-key 23 versions 0 flexible none
  groupId string 0
LegacyOffsetCommitValue coordinator-value 0 versions 0 flexible none
  offset int64 0
  metadata string 0
  commitTimestamp int64 0
OffsetCommitValue coordinator-value 1 versions 0-4 flexible 4+
  offset int64 0+
  leaderEpoch int32 3+ default -1 ignorable
  metadata string 0+
  commitTimestamp int64 0+
  expireTimestamp int64 1 default -1 ignorable
  topicId uuid 4+ tag 0 4+ ignorable
GroupMetadataValue coordinator-value 2 versions 0-4 flexible 4+
  protocolType string 0+
  generation int32 0+
  protocol string 0+ null 0+
  leader string 0+ null 0+
  currentStateTimestamp int64 2+ default -1 ignorable
  members []MemberMetadata 0+
  struct MemberMetadata
    memberId string 0+
    groupInstanceId string 3+ null 3+ default null ignorable
    clientId string 0+
    clientHost string 0+
    rebalanceTimeout int32 1+ default -1 ignorable
    sessionTimeout int32 0+
    subscription bytes 0+
    assignment bytes 0+
ConsumerGroupMetadataValue coordinator-value 3 versions 0 flexible 0+
  epoch int32 0+
  metadataHash int64 0+ tag 0 0+ default 0
ConsumerGroupPartitionMetadataValue coordinator-value 4 versions 0 flexible 0+
  topics []TopicMetadata 0+
    topicId uuid 0+
    topicName string 0+
    numPartitions int32 0+
    partitionMetadata []PartitionMetadata 0+
      partition int32 0+
      racks []string 0+
ConsumerGroupMemberMetadataValue coordinator-value 5 versions 0 flexible 0+
  instanceId string 0+ null 0+
  rackId string 0+ null 0+
  clientId string 0+
  clientHost string 0+
  subscribedTopicNames []string 0+
  subscribedTopicRegex string 0+ null 0+
  rebalanceTimeoutMs int32 0+ default -1
  serverAssignor string 0+ null 0+
  classicMemberMetadata ClassicMemberMetadata 0+ null 0+ tag 0 0+
    sessionTimeoutMs int32 0+
    supportedProtocols []ClassicProtocol 0+
      name string 0+
      metadata bytes 0+
ConsumerGroupTargetAssignmentMetadataValue coordinator-value 6 versions 0 flexible 0+
  assignmentEpoch int32 0+
  assignmentTimestamp int64 0+ tag 0 0+ default 0 ignorable
ConsumerGroupTargetAssignmentMemberValue coordinator-value 7 versions 0 flexible 0+
  topicPartitions []TopicPartition 0+
    topicId uuid 0+
    partitions []int32 0+
ConsumerGroupCurrentMemberAssignmentValue coordinator-value 8 versions 0 flexible 0+
  memberEpoch int32 0+
  previousMemberEpoch int32 0+
  state int8 0+
  assignedPartitions []TopicPartitions 0+
  partitionsPendingRevocation []TopicPartitions 0+
  struct TopicPartitions
    topicId uuid 0+
    partitions []int32 0+
    assignmentEpochs []int32 0+ null 0+ tag 0 0+
ShareGroupMemberMetadataValue coordinator-value 10 versions 0 flexible 0+
  rackId string 0+ null 0+
  clientId string 0+
  clientHost string 0+
  subscribedTopicNames []string 0+
ShareGroupMetadataValue coordinator-value 11 versions 0 flexible 0+
  epoch int32 0+
  metadataHash int64 0+
ShareGroupTargetAssignmentMetadataValue coordinator-value 12 versions 0 flexible 0+
  assignmentEpoch int32 0+
  assignmentTimestamp int64 0+ tag 0 0+ default 0 ignorable
ShareGroupTargetAssignmentMemberValue coordinator-value 13 versions 0 flexible 0+
  topicPartitions []TopicPartition 0+
    topicId uuid 0+
    partitions []int32 0+
ShareGroupCurrentMemberAssignmentValue coordinator-value 14 versions 0 flexible 0+
  memberEpoch int32 0+
  previousMemberEpoch int32 0+
  state int8 0+
  assignedPartitions []TopicPartitions 0+
  struct TopicPartitions
    topicId uuid 0+
    partitions []int32 0+
ShareGroupStatePartitionMetadataValue coordinator-value 15 versions 0 flexible 0+
  initializingTopics []TopicPartitionsInfo 0+
  initializedTopics []TopicPartitionsInfo 0+
  deletingTopics []TopicInfo 0+
  struct TopicPartitionsInfo
    topicId uuid 0+
    topicName string 0+
    partitions []int32 0+
  struct TopicInfo
    topicId uuid 0+
    topicName string 0+
ConsumerGroupRegularExpressionValue coordinator-value 16 versions 0 flexible 0+
  topics []string 0+
  version int64 0+
  timestamp int64 0+
StreamsGroupMetadataValue coordinator-value 17 versions 0 flexible 0+
  epoch int32 0+
  metadataHash int64 0+
  validatedTopologyEpoch int32 0+ tag 0 0+ default -1
  lastAssignmentConfigs []LastAssignmentConfig 0+ null 0+ tag 1 0+
  storedDescriptionTopologyEpoch int32 0+ tag 2 0+ default -1
  failedDescriptionTopologyEpoch int32 0+ tag 3 0+ default -1
  struct LastAssignmentConfig
    key string 0+
    value string 0+
StreamsGroupMemberMetadataValue coordinator-value 19 versions 0 flexible 0+
  instanceId string 0+ null 0+
  rackId string 0+ null 0+
  clientId string 0+
  clientHost string 0+
  rebalanceTimeoutMs int32 0+ default -1
  topologyEpoch int32 0+
  processId string 0+
  userEndpoint Endpoint 0+ null 0+ default null
  clientTags []KeyValue 0+
  struct Endpoint
    host string 0+
    port uint16 0+
  struct KeyValue
    key string 0+
    value string 0+
StreamsGroupTargetAssignmentMetadataValue coordinator-value 20 versions 0 flexible 0+
  assignmentEpoch int32 0+
  assignmentTimestamp int64 0+ tag 0 0+ default 0 ignorable
StreamsGroupTargetAssignmentMemberValue coordinator-value 21 versions 0 flexible 0+
  activeTasks []TaskIds 0+
  standbyTasks []TaskIds 0+
  warmupTasks []TaskIds 0+
  struct TaskIds
    subtopologyId string 0+
    partitions []int32 0+
StreamsGroupCurrentMemberAssignmentValue coordinator-value 22 versions 0 flexible 0+
  memberEpoch int32 0+
  previousMemberEpoch int32 0+
  state int8 0+
  activeTasks []TaskIds 0+
  standbyTasks []TaskIds 0+
  warmupTasks []TaskIds 0+
  activeTasksPendingRevocation []TaskIds 0+
  standbyTasksPendingRevocation []TaskIds 0+
  warmupTasksPendingRevocation []TaskIds 0+
  struct TaskIds
    subtopologyId string 0+
    partitions []int32 0+
    assignmentEpochs []int32 0+ null 0+ tag 0 0+
StreamsGroupTopologyValue coordinator-value 23 versions 0 flexible 0+
  epoch int32 0+
  subtopologies []Subtopology 0+
    subtopologyId string 0+
    sourceTopics []string 0+
    sourceTopicRegex []string 0+
    stateChangelogTopics []TopicInfo 0+
    repartitionSinkTopics []string 0+
    repartitionSourceTopics []TopicInfo 0+
    copartitionGroups []CopartitionGroup 0+
      sourceTopics []int16 0+
      sourceTopicRegex []int16 0+
      repartitionSourceTopics []int16 0+
  struct TopicConfig
    key string 0+
    value string 0+
  struct TopicInfo
    name string 0+
    partitions int32 0+
    replicationFactor int16 0+
    topicConfigs []TopicConfig 0+
"""
"""Keys and values of `__consumer_offsets`.

From kafka-group-coordinator-4.4.0.jar, SHA-256 3fc830ace54f6a13f9f536bc0564bf39a68797365a4c4b194bd7db4fb893b2bc.
"""

TRANSACTION_STATE = """\
TransactionLogKey coordinator-key 0 versions 0 flexible none
  transactionalId string 0
TransactionLogValue coordinator-value 0 versions 0-1 flexible 1+
  producerId int64 0+
  previousProducerId int64 1+ tag 0 1+ default -1
  nextProducerId int64 1+ tag 1 1+ default -1
  producerEpoch int16 0+
  nextProducerEpoch int16 1+ tag 3 1+ default -1
  transactionTimeoutMs int32 0+
  transactionStatus int8 0+
  transactionPartitions []PartitionsSchema 0+ null 0+
    topic string 0+
    partitionIds []int32 0+
  transactionLastUpdateTimestampMs int64 0+
  transactionStartTimestampMs int64 0+
  clientTransactionVersion int16 1+ tag 2 1+ default 0
"""
"""Keys and values of `__transaction_state`.

From kafka-transaction-coordinator-4.4.0.jar, SHA-256 1d5324d59776d6b7f324cfdc87647b1e88f9823332201c0324e7ae9f210d915d.
"""

SHARE_GROUP_STATE = """\
ShareSnapshotKey coordinator-key 0 versions 0 flexible none
  groupId string 0
  topicId uuid 0
  partition int32 0
ShareUpdateKey coordinator-key 1 versions 0 flexible none
  groupId string 0
  topicId uuid 0
  partition int32 0
ShareSnapshotValue coordinator-value 0 versions 0 flexible 0+
  snapshotEpoch int32 0+
  stateEpoch int32 0+
  leaderEpoch int32 0+
  startOffset int64 0+
  deliveryCompleteCount int32 0+ tag 0 0+ default -1
  createTimestamp int64 0+
  writeTimestamp int64 0+
  stateBatches []StateBatch 0+
    firstOffset int64 0+
    lastOffset int64 0+
    deliveryState int8 0+
    deliveryCount int16 0+
ShareUpdateValue coordinator-value 1 versions 0 flexible 0+
  snapshotEpoch int32 0+
  leaderEpoch int32 0+
  startOffset int64 0+
  deliveryCompleteCount int32 0+ tag 0 0+ default -1
  stateBatches []StateBatch 0+
    firstOffset int64 0+
    lastOffset int64 0+
    deliveryState int8 0+
    deliveryCount int16 0+
"""
"""Keys and values of `__share_group_state`.

From kafka-share-coordinator-4.4.0.jar, SHA-256 6969a7961ca98d37a039bbe0af0fe761d6b0dd07ca9666802f47821167afbb6e.
"""

CLUSTER_METADATA = """\
RegisterBrokerRecord metadata 0 versions 0-4 flexible 0+
  brokerId int32 0+
  isMigratingZkBroker bool 2+ default false
  incarnationId uuid 0+
  brokerEpoch int64 0+
  endPoints []BrokerEndpoint 0+
    name string 0+
    host string 0+
    port uint16 0+
    securityProtocol int16 0+
  features []BrokerFeature 0+
    name string 0+
    minSupportedVersion int16 0+
    maxSupportedVersion int16 0+
  rack string 0+ null 0+
  fenced bool 0+ default true
  inControlledShutdown bool 1+ default false
  logDirs []uuid 3+ tag 0 3+
  cordonedLogDirs []uuid 4+ null 4+ tag 1 4+ default null
UnregisterBrokerRecord metadata 1 versions 0 flexible 0+
  brokerId int32 0+
  brokerEpoch int64 0+
TopicRecord metadata 2 versions 0 flexible 0+
  name string 0+
  topicId uuid 0+
PartitionRecord metadata 3 versions 0-2 flexible 0+
  partitionId int32 0+ default -1
  topicId uuid 0+
  replicas []int32 0+
  isr []int32 0+
  removingReplicas []int32 0+
  addingReplicas []int32 0+
  leader int32 0+ default -1
  leaderRecoveryState int8 0+ tag 0 0+ default 0
  leaderEpoch int32 0+ default -1
  partitionEpoch int32 0+ default -1
  directories []uuid 1+
  eligibleLeaderReplicas []int32 2+ null 2+ tag 1 2+ default null
  lastKnownElr []int32 2+ null 2+ tag 2 2+ default null
ConfigRecord metadata 4 versions 0 flexible 0+
  resourceType int8 0+
  resourceName string 0+
  name string 0+
  value string 0+ null 0+
PartitionChangeRecord metadata 5 versions 0-2 flexible 0+
  partitionId int32 0+ default -1
  topicId uuid 0+
  isr []int32 0+ null 0+ tag 0 0+ default null
  leader int32 0+ tag 1 0+ default -2
  replicas []int32 0+ null 0+ tag 2 0+ default null
  removingReplicas []int32 0+ null 0+ tag 3 0+ default null
  addingReplicas []int32 0+ null 0+ tag 4 0+ default null
  leaderRecoveryState int8 0+ tag 5 0+ default -1
  directories []uuid 1+ null 1+ tag 8 1+ default null
  eligibleLeaderReplicas []int32 2+ null 2+ tag 6 2+ default null
  lastKnownElr []int32 2+ null 2+ tag 7 2+ default null
FenceBrokerRecord metadata 7 versions 0 flexible 0+
  id int32 0+
  epoch int64 0+
UnfenceBrokerRecord metadata 8 versions 0 flexible 0+
  id int32 0+
  epoch int64 0+
RemoveTopicRecord metadata 9 versions 0 flexible 0+
  topicId uuid 0+
DelegationTokenRecord metadata 10 versions 0 flexible 0+
  owner string 0+
  requester string 0+
  renewers []string 0+
  issueTimestamp int64 0+
  maxTimestamp int64 0+
  expirationTimestamp int64 0+
  tokenId string 0+
UserScramCredentialRecord metadata 11 versions 0 flexible 0+
  name string 0+
  mechanism int8 0+
  salt bytes 0+
  storedKey bytes 0+
  serverKey bytes 0+
  iterations int32 0+
FeatureLevelRecord metadata 12 versions 0 flexible 0+
  name string 0+
  featureLevel int16 0+
ClientQuotaRecord metadata 14 versions 0 flexible 0+
  entity []EntityData 0+
    entityType string 0+
    entityName string 0+ null 0+
  key string 0+
  value float64 0+
  remove bool 0+
ProducerIdsRecord metadata 15 versions 0 flexible 0+
  brokerId int32 0+
  brokerEpoch int64 0+ default -1
  nextProducerId int64 0+
BrokerRegistrationChangeRecord metadata 17 versions 0-3 flexible 0+
  brokerId int32 0+
  brokerEpoch int64 0+
  fenced int8 0+ tag 0 0+
  inControlledShutdown int8 1+ tag 1 1+
  logDirs []uuid 2+ tag 2 2+
  cordonedLogDirs []uuid 3+ null 3+ tag 3 3+ default null
AccessControlEntryRecord metadata 18 versions 0 flexible 0+
  id uuid 0+
  resourceType int8 0+
  resourceName string 0+
  patternType int8 0+
  principal string 0+
  host string 0+
  operation int8 0+
  permissionType int8 0+
RemoveAccessControlEntryRecord metadata 19 versions 0 flexible 0+
  id uuid 0+
NoOpRecord metadata 20 versions 0 flexible 0+
ZkMigrationStateRecord metadata 21 versions 0 flexible 0+
  zkMigrationState int8 0+
RemoveUserScramCredentialRecord metadata 22 versions 0 flexible 0+
  name string 0+
  mechanism int8 0+
BeginTransactionRecord metadata 23 versions 0 flexible 0+
  name string 0+ null 0+ tag 0 0+ default null
EndTransactionRecord metadata 24 versions 0 flexible 0+
AbortTransactionRecord metadata 25 versions 0 flexible 0+
  reason string 0+ null 0+ tag 0 0+ default null
RemoveDelegationTokenRecord metadata 26 versions 0 flexible 0+
  tokenId string 0+
RegisterControllerRecord metadata 27 versions 0 flexible 0+
  controllerId int32 0+
  incarnationId uuid 0+
  zkMigrationReady bool 0+
  endPoints []ControllerEndpoint 0+
    name string 0+
    host string 0+
    port uint16 0+
    securityProtocol int16 0+
  features []ControllerFeature 0+
    name string 0+
    minSupportedVersion int16 0+
    maxSupportedVersion int16 0+
ClearElrRecord metadata 28 versions 0 flexible 0+
  topicName string 0+
UnregisterControllerRecord metadata 29 versions 0 flexible 0+
  controllerId int32 0+
"""
"""Records of `__cluster_metadata` and of its snapshots.

From kafka-metadata-4.4.0.jar, SHA-256 6c52de74ecd670332e1e1324f5d40311275ac49b22699b6722e5fb07dd266fcb.
"""

STORAGE_FILES = """\
ProducerSnapshot data - versions 1 flexible none
  crc uint32 1
  producerEntries []ProducerEntry 1
    producerId int64 1
    epoch int16 1
    lastSequence int32 1
    lastOffset int64 1
    offsetDelta int32 1
    timestamp int64 1
    coordinatorEpoch int32 1
    currentTxnFirstOffset int64 1
RemoteLogSegmentMetadataRecord metadata 0 versions 0 flexible 0+
  remoteLogSegmentId RemoteLogSegmentIdEntry 0+
    topicIdPartition TopicIdPartitionEntry 0+
      name string 0+
      id uuid 0+
      partition int32 0+
    id uuid 0+
  startOffset int64 0+
  endOffset int64 0+
  brokerId int32 0+
  maxTimestampMs int64 0+
  eventTimestampMs int64 0+
  segmentLeaderEpochs []SegmentLeaderEpochEntry 0+
    leaderEpoch int32 0+
    offset int64 0+
  segmentSizeInBytes int32 0+
  customMetadata bytes 0+ null 0+ default null
  remoteLogSegmentState int8 0+
  txnIndexEmpty bool 0+ tag 0 0+
RemoteLogSegmentMetadataUpdateRecord metadata 1 versions 0 flexible 0+
  remoteLogSegmentId RemoteLogSegmentIdEntry 0+
    topicIdPartition TopicIdPartitionEntry 0+
      name string 0+
      id uuid 0+
      partition int32 0+
    id uuid 0+
  brokerId int32 0+
  eventTimestampMs int64 0+
  customMetadata bytes 0+ null 0+ default null
  remoteLogSegmentState int8 0+
RemotePartitionDeleteMetadataRecord metadata 2 versions 0 flexible 0+
  topicIdPartition TopicIdPartitionEntry 0+
    name string 0+
    id uuid 0+
    partition int32 0+
  brokerId int32 0+
  eventTimestampMs int64 0+
  remotePartitionDeleteState int8 0+
RemoteLogSegmentMetadataSnapshotRecord metadata 3 versions 0 flexible 0+
  segmentId uuid 0+
  startOffset int64 0+
  endOffset int64 0+
  brokerId int32 0+
  maxTimestampMs int64 0+
  eventTimestampMs int64 0+
  segmentLeaderEpochs []SegmentLeaderEpochEntry 0+
    leaderEpoch int32 0+
    offset int64 0+
  segmentSizeInBytes int32 0+
  customMetadata bytes 0+ null 0+ default null
  remoteLogSegmentState int8 0+
  txnIndexEmpty bool 0+ tag 0 0+
"""
"""Records of `__remote_log_metadata`, and producer snapshots.

From kafka-storage-4.4.0.jar, SHA-256 9eaa4dafacc251080ece0efa8511283da5de6931e843457f6af87f02f9b50039.
"""

QUORUM_FILES = """\
QuorumStateData data - versions 0-1 flexible 0+
  clusterId string 0
  leaderId int32 0+ default -1
  leaderEpoch int32 0+ default -1
  votedId int32 0+ default -1
  votedDirectoryId uuid 1+
  appliedOffset int64 0
  currentVoters []Voter 0 null 0
    voterId int32 0
"""
"""The file `quorum-state`.

From kafka-raft-4.4.0.jar, SHA-256 687f278ce5d82b7f53644643e21e1a7452530f202826108990f0fe4f3d334d4f.
"""

SHARED_PARTS = """\
AbortedTxn data - versions 0 flexible none
  producerId int64 0+
  firstOffset int64 0+
  lastOffset int64 0+
  lastStableOffset int64 0+
ConsumerProtocolAssignment data - versions 0-3 flexible none
  assignedPartitions []TopicPartition 0+
    topic string 0+
    partitions []int32 0+
  userData bytes 0+ null 0+ default null
ConsumerProtocolSubscription data - versions 0-3 flexible none
  topics []string 0+
  userData bytes 0+ null 0+ default null
  ownedPartitions []TopicPartition 1+ ignorable
    topic string 1+
    partitions []int32 1+
  generationId int32 2+ default -1 ignorable
  rackId string 3+ null 3+ default null ignorable
ControlRecordTypeSchema data - versions 0 flexible none
  type int16 0+
DefaultPrincipalData data - versions 0 flexible 0+
  type string 0+
  name string 0+
  tokenAuthenticated bool 0+
EndTxnMarker data - versions 0 flexible none
  coordinatorEpoch int32 0+
KRaftVersionRecord data - versions 0 flexible 0+
  version int16 0+
  kRaftVersion int16 0+
LeaderChangeMessage data - versions 0-1 flexible 0+
  version int16 0+
  leaderId int32 0+
  voters []Voter 0+
  grantingVoters []Voter 0+
  struct Voter
    voterId int32 0+
    voterDirectoryId uuid 1+
SnapshotFooterRecord data - versions 0 flexible 0+
  version int16 0+
SnapshotHeaderRecord data - versions 0 flexible 0+
  version int16 0+
  lastContainedLogTimestamp int64 0+
VotersRecord data - versions 0 flexible 0+
  version int16 0+
  voters []Voter 0+
    voterId int32 0+
    voterDirectoryId uuid 0+
    endpoints []Endpoint 0+
      name string 0+
      host string 0+
      port uint16 0+
    kRaftVersionFeature KRaftVersionFeature 0+
      minSupportedVersion int16 0+
      maxSupportedVersion int16 0+
"""
"""Control records, and what consumers put into the metadata of their groups.

From kafka-clients-4.4.0.jar, SHA-256 1ab07317eb6633241392449d329dbdc5d9251e6ffc4926860f42dd966e88bdf9.
"""
