"""Kafka's own topics at a source: their records in order, groups, and the state of a cluster."""
