"""The file `quorum-state`.

Made by `tests.kafka.message_schemas`; do not edit.
"""

KAFKA_VERSION = "4.4.0"
JAR = "kafka-raft-4.4.0.jar"
JAR_SHA256 = "687f278ce5d82b7f53644643e21e1a7452530f202826108990f0fe4f3d334d4f"
SCHEMAS = """\
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
