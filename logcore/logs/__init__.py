"""The log of one topic partition: which bytes can be trusted, the state of each offset, what may be read from its end,
and what Kafka's own maintenance would remove.

Works on values of `logcore.segments`; opens no file and reads no clock.
"""
