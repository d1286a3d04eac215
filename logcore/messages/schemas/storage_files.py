"""Records of `__remote_log_metadata`, and producer snapshots.

Made by `tests.kafka.message_schemas`; do not edit.
"""

KAFKA_VERSION = "4.4.0"
JAR = "kafka-storage-4.4.0.jar"
JAR_SHA256 = "9eaa4dafacc251080ece0efa8511283da5de6931e843457f6af87f02f9b50039"
SCHEMAS = """\
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
