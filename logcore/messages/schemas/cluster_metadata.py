"""Records of `__cluster_metadata` and of its snapshots.

Made by `tests.kafka.message_schemas`; do not edit.
"""

KAFKA_VERSION = "4.4.0"
JAR = "kafka-metadata-4.4.0.jar"
JAR_SHA256 = "6c52de74ecd670332e1e1324f5d40311275ac49b22699b6722e5fb07dd266fcb"
SCHEMAS = """\
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
