"""Values as confluent-kafka's serializers write them, with its registry in memory: ours equal its deserializers'."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import DescriptorProto
from google.protobuf.timestamp_pb2 import Timestamp

from logcore.values.column import decode_column_plainly
from logcore.values.evolution.topic_writers import SchemaNaming, topic_writers
from logcore.values.evolution.written_column import WrittenColumnDecoder
from logcore.values.formats import decoder_of
from logcore.values.prefix import VALUE_HEADER, Framing, Writer, split_row
from logcore.values.registry.schemas_topic import fold_schemas_topic
from logcore.values.split_column import header_column, split_column

SUBJECT = "orders-value"
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
# Their deserializer refuses values of less than six bytes, also where the prefix is in a header.
FIELDS = [{"name": "id", "type": "long"}, {"name": "customer", "type": "string"}]
FIRST = {"type": "record", "name": "Order", "fields": FIELDS}
SECOND = {**FIRST, "fields": [*FIELDS, {"name": "note", "type": ["null", "string"], "default": None}]}
DOCUMENT = {
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["id"],
}


def topic_records(client: SchemaRegistryClient, kind: str) -> list[tuple[bytes, bytes]]:
    """What a registry's topic holds for the versions that the registry in memory knows."""
    records = []
    for version in client.get_versions(SUBJECT):
        known = client.get_version(SUBJECT, version)
        key = {"keytype": "SCHEMA", "subject": SUBJECT, "version": version, "magic": 1}
        digest = base64.b64encode(UUID(known.guid).bytes).decode()
        value = {**key, "id": known.schema_id, "md5": digest, "schema": known.schema.schema_str, "schemaType": kind}
        records.append((json.dumps(key).encode(), json.dumps(value).encode()))
    return records


def decoded(client: SchemaRegistryClient, kind: str, bodies: list[bytes], headers: pa.Array | None = None):
    schemas = fold_schemas_topic(topic_records(client, kind)).schemas
    rows: dict[int, object] = {}
    split = split_column(pa.array(bodies), Framing.HEADER_OR_PREFIX, headers, kind == "PROTOBUF")
    assert split.failed == ()
    for group in split.groups:
        schema = schemas.writer_schema(group.writer.schema, SUBJECT)
        decoder = decoder_of(schema.format, schema.text, schema.references, group.writer.message)
        column = decode_column_plainly(decoder, group.bodies)
        assert column.failed == ()
        rows.update(zip(group.rows, column.values.to_pylist(), strict=True))
    return [rows[row] for row in range(len(bodies))]


@pytest.mark.parametrize("in_header", [False, True])
def test_avro_of_two_schemas_is_decoded_as_each_was_written(in_header):
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    settings = {"schema.id.serializer": header_schema_id_serializer} if in_header else {}
    serializers = [AvroSerializer(client, json.dumps(schema), conf=settings) for schema in (FIRST, SECOND)]
    sent = [{"id": row - 9, "customer": "Ångström"} for row in range(30)]
    sent = [value if row % 3 else {**value, "note": "n" * row} for row, value in enumerate(sent)]
    deserializer = AvroDeserializer(client)
    bodies, headers, theirs = [], [], []
    for value in sent:
        context = SerializationContext("orders", MessageField.VALUE, [])
        bodies.append(serializers["note" in value](value, context))
        headers.append([{"key": name, "value": content} for name, content in context.headers])
        theirs.append(deserializer(bodies[-1], context))
    assert theirs == sent
    named = header_column(pa.array(headers, HEADERS), VALUE_HEADER)
    assert (named is not None) == in_header
    assert decoded(client, "AVRO", bodies, named) == sent


@pytest.mark.parametrize(
    ("kind", "sent"),
    [("bytes", [b"\x02A", b"A", b"\xff" * 300]), ("long", [1 << 40, -1]), ("string", ["Ångström", "x"])],
)
@pytest.mark.parametrize("is_short", [False, True])  # the registry may keep the name alone
def test_avro_without_a_record_is_decoded_and_bytes_have_no_length_before_them(kind, sent, is_short):
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    serializer, deserializer = AvroSerializer(client, json.dumps({"type": kind})), AvroDeserializer(client)
    context = SerializationContext("orders", MessageField.VALUE)
    bodies = [serializer(value, context) for value in sent]
    assert [deserializer(body, context) for body in bodies] == sent
    records = topic_records(client, "AVRO")
    if is_short:
        records = [(key, json.dumps({**json.loads(value), "schema": f'"{kind}"'}).encode()) for key, value in records]
    naming = SchemaNaming("avro", (SUBJECT,), Framing.PREFIX)
    writers = topic_writers(fold_schemas_topic(records).schemas, naming, "value")
    column = WrittenColumnDecoder(writers).decode(pa.array(bodies), None, is_plain=False)
    assert column.failed == ()
    assert column.values.to_pylist() == sent


def test_a_decimal_alone_is_all_bytes_after_the_id():
    """Connect writes it so: its schema is `bytes` too."""
    schema = json.dumps({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2})
    decoder = decoder_of("avro", schema, names_schema=True)
    assert [decoder.decode(body) for body in (b"\x02\x00", b"\xff", b"")] == [Decimal("5.12"), Decimal("-0.01"), 0]
    assert decoder_of("avro", schema).decode(b"\x02\xff") == Decimal("-0.01")


def test_json_is_decoded():
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    serializer = JSONSerializer(json.dumps(DOCUMENT), client)
    deserializer = JSONDeserializer(json.dumps(DOCUMENT), schema_registry_client=client)
    context = SerializationContext("orders", MessageField.VALUE)
    sent = [{"id": row, "note": "\N{GRINNING FACE}" * row} for row in range(10)]
    bodies = [serializer(value, context) for value in sent]
    assert [deserializer(body, context) for body in bodies] == sent
    assert decoded(client, "JSON", bodies) == sent


def test_protobuf_is_decoded():
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    serializer = ProtobufSerializer(Timestamp, client)
    context = SerializationContext("orders", MessageField.VALUE)
    bodies = [serializer(Timestamp(seconds=row, nanos=7), context) for row in range(1, 10)]
    assert decoded(client, "PROTOBUF", bodies) == [{"seconds": row, "nanos": 7} for row in range(1, 10)]


def test_the_indexes_of_a_nested_message_are_found():
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    serializer = ProtobufSerializer(DescriptorProto.ExtensionRange, client)
    sent = DescriptorProto.ExtensionRange(start=3)
    body = serializer(sent, SerializationContext("orders", MessageField.VALUE))
    # In `descriptor.proto`, DescriptorProto is the third message and ExtensionRange its first nested one.
    prefix = split_row(body, None, Framing.PREFIX, messages=True)
    assert prefix.writer == Writer(client.get_latest_version(SUBJECT).schema_id, (2, 0))
    assert body[prefix.start :] == sent.SerializeToString()
