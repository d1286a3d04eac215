"""The job `cluster`: what the internal topics at a lake's sources say, as tables.

internal_sources   the logs of internal topics, by cluster
group_rows         commits, offsets, groups and members, from `__consumer_offsets`
metadata_rows      topics, settings, partitions, brokers and features over time, from `__cluster_metadata`
coordinator_rows   transactional ids and remote segments
kept_history       what the table knows of the time before the source begins
job                plan, comparison with the tables, commits
"""
