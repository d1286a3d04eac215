"""What the log of one topic partition means: which of its bytes can be trusted, what became of each of its offsets,
what may be taken from its end, and what Kafka's own maintenance would remove.

Works on values that `logcore.segments` produced; opens no file and asks no clock.
"""
