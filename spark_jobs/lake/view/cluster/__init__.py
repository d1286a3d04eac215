"""The tables of the cluster as commands, checks and pages show them.

followed_topics    whether a run writes the tables: internal topics in the lake, and the policy
placement          replicas by broker and log directory, and partitions that need attention
group_lag          the lag of groups, run by run
"""
