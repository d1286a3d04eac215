"""Logs as a Spark data source: batch and stream, with the options and columns of Spark's Kafka source."""
