"""What the records of Kafka's own topics mean: commits of groups, transactions, and the metadata of a cluster.

    internal_topics   the topics, and the messages in a record of one
    decoded_records   a record as the JSON that Kafka's decoders print
    secrets           which fields are redacted
    group_states      groups, their members and offsets, from records of `__consumer_offsets`
    cluster_states    topics, partitions, configurations and brokers, from records of `__cluster_metadata`

Bytes and records in, values out. `logcore.messages` reads the messages.
"""
