"""Keys and values of `__share_group_state`.

Made by `tests.kafka.message_schemas`; do not edit.
"""

KAFKA_VERSION = "4.4.0"
JAR = "kafka-share-coordinator-4.4.0.jar"
JAR_SHA256 = "6969a7961ca98d37a039bbe0af0fe761d6b0dd07ca9666802f47821167afbb6e"
SCHEMAS = """\
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
