"""Kafka's message schemas as text, one module for each family: made from Kafka's jars, not written by hand.

`python -m tests.kafka.message_schemas` makes the modules again. `logcore.messages.known_messages` describes the text.
"""
