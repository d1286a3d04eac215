"""Keys and values of `__transaction_state`.

Made by `tests.kafka.message_schemas`; do not edit.
"""

KAFKA_VERSION = "4.4.0"
JAR = "kafka-transaction-coordinator-4.4.0.jar"
JAR_SHA256 = "1d5324d59776d6b7f324cfdc87647b1e88f9823332201c0324e7ae9f210d915d"
SCHEMAS = """\
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
