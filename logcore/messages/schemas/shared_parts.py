"""Control records, and what consumers put into the metadata of their groups.

Made by `tests.kafka.message_schemas`; do not edit.
"""

KAFKA_VERSION = "4.4.0"
JAR = "kafka-clients-4.4.0.jar"
JAR_SHA256 = "1ab07317eb6633241392449d329dbdc5d9251e6ffc4926860f42dd966e88bdf9"
SCHEMAS = """\
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
