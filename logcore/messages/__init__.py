"""Kafka's messages: the schemas of its generated classes as data, and one reader and one writer for all of them.

    schemas/*       the schemas, made from Kafka's jars
    schema          what a schema is
    layout          a schema in one version: fields in the order of their bytes
    reader, writer  bytes to values, values to bytes
    straight_readers  what the reader reads, by code that is made for one version of a schema
    known_messages  schemas by family, type and name
    kafka_json      values as the JSON that Kafka's tools print

Nothing here knows what a message is used for. Secrets are not redacted here: `write(read(bytes))` gives the same bytes.
"""
