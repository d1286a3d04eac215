"""Cleaning a log by key, as Kafka's cleaner does it: one module for each decision."""
