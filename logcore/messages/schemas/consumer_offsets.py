"""Keys and values of `__consumer_offsets`.

Made by `tests.kafka.message_schemas`; do not edit.
"""

KAFKA_VERSION = "4.4.0"
JAR = "kafka-group-coordinator-4.4.0.jar"
JAR_SHA256 = "3fc830ace54f6a13f9f536bc0564bf39a68797365a4c4b194bd7db4fb893b2bc"
SCHEMAS = """\
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
