"""Kafka's messages: the schemas of its generated classes as data, and one reader for all of them.

    schemas         the schemas as text, made from Kafka's jars
    message_schema  what a schema is
    reader          a schema in one version as a layout, and bytes to values by it
    straight_readers  what the reader reads, by code that is made for one version of a schema
    known_messages  schemas by family, type and name
    kafka_json      values as the JSON that Kafka's tools print

Nothing here knows what a message is used for. Secrets are not redacted here.
"""
