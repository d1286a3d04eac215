"""The commands that read Kafka's own topics: groups, topics and the state of a cluster."""
