"""The job `cluster`: what the internal topics at a lake's sources say, as tables.

internal_sources    the logs of internal topics, by cluster
commit_rows         commits of offsets, from `__consumer_offsets`
new_commits         which of them the table lacks
group_rows          groups with their offsets and members, from `__consumer_offsets`
metadata_rows       topics, settings, partitions, brokers and features over time, from `__cluster_metadata`
coordinator_rows    transactional ids and remote segments
kept_history        what the table knows of the time before the source begins
job                 plan, comparison with the tables, commits
"""
