"""What a lake has of a cluster beside its tables.

cluster_settings    policies with what the cluster said about each topic
resulting_settings  the settings of a topic that a run would use, and where each is from
last_reading        what the job `cluster` found when it last read the sources
"""
