"""Topics that confluent-kafka's serializers fill at a real broker, and what its deserializers read from them.

The registry is the library's own in memory. What it knows is also written to the topic `_schemas`, as Confluent's
registry does. Each topic has values of two schemas: the second one adds a field.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, StringSerializer
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.kafka.broker import Broker

FORMATS = ("avro", "json", "protobuf")
FORMS = ("id", "guid", "header")
"""How a value names its schema: by a prefix with an id, by a prefix with a GUID, by a header with a GUID."""
ROWS = 90
SECONDS = 60

_Value = dict[str, Any]
_Context = SerializationContext
_TYPES = descriptor_pb2.FieldDescriptorProto


@dataclass(frozen=True, slots=True)
class SerializedTopic:
    """A topic and what the library's consumer and deserializers say about its records."""

    format: str
    form: str
    keys: list[object] = field(default_factory=list)
    values: list[_Value | None] = field(default_factory=list)
    """In the order of offsets; None for a tombstone. A field that a value does not have is None."""

    @property
    def name(self) -> str:
        return f"{self.format}-by-{self.form}"


@dataclass(frozen=True, slots=True)
class Serialized:
    """The log directory after a clean stop, and its topics."""

    log_dir: Path
    topics: tuple[SerializedTopic, ...]
    registered: int
    """Schemas in the registry."""


def written(folder: Path) -> Serialized:
    """Fill a broker, read it back with the library, and stop it."""
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    topics = tuple(SerializedTopic(format, form) for format in FORMATS for form in FORMS)
    with Broker(folder) as broker:
        admin = AdminClient({"bootstrap.servers": broker.servers, "log_level": 0})
        names = ["_schemas", *(topic.name for topic in topics)]
        for made in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
            made.result(SECONDS)
        producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 5, "compression.type": "lz4"})
        for topic in topics:
            _fill(producer, client, topic)
        records = list(_schemas_records(client))
        for key, value in records:
            producer.produce("_schemas", value, key)
        assert producer.flush(SECONDS) == 0
        for topic in topics:
            for message in _consumed(broker.servers, topic.name):
                _read(client, topic, message)
    return Serialized(folder / "data", topics, len(records))


# What is written


def _sent(row: int) -> _Value | None:
    """Every ninth row is a tombstone; later rows have the added field more often."""
    if row % 9 == 8:
        return None
    value: _Value = {
        "id": (row - 40) << (row % 5 * 9),
        "customer": f"Ångström {row}",
        "price": row / 8,
        "tags": [f"t{number}" for number in range(row % 4)],
        "address": {"city": f"Zürich {row % 3}"},
    }
    return value if row * 7 % ROWS > row else {**value, "note": "n" * (row % 200)}


_ADDRESS = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}
_AVRO_FIELDS = [
    *({"name": name, "type": kind} for name, kind in (("id", "long"), ("customer", "string"), ("price", "double"))),
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "address", "type": "Address"},
]
_AVRO_NOTE = {"name": "note", "type": ["null", "string"], "default": None}
_AVRO_KEY = {"type": "record", "name": "Key", "fields": [{"name": "customer", "type": "string"}]}
_JSON_PROPERTIES = {
    "id": {"type": "integer"},
    "customer": {"type": "string"},
    "price": {"type": "number"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "address": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def _avro_schema(client: SchemaRegistryClient, *fields: Mapping[str, Any]) -> Schema:
    """A schema that refers to another one, which is registered under a subject of its own."""
    client.register_schema("address", Schema(json.dumps(_ADDRESS), "AVRO"))
    text = json.dumps({"type": "record", "name": "Order", "fields": [*_AVRO_FIELDS, *fields]})
    return Schema(text, "AVRO", [SchemaReference("Address", "address", 1)])


def _json_schema(**more: object) -> str:
    return json.dumps({"title": "Order", "type": "object", "properties": {**_JSON_PROPERTIES, **more}})


def _proto_class(*, has_note: bool) -> Any:
    """The class of `Order`, the second message of its file, without or with the field that was added."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    city = file.message_type.add(name="Address")
    city.field.add(name="city", number=1, type=_TYPES.TYPE_STRING, label=_TYPES.LABEL_OPTIONAL)
    order = file.message_type.add(name="Order")
    for number, (name, kind) in enumerate((("id", "INT64"), ("customer", "STRING"), ("price", "DOUBLE")), 1):
        order.field.add(name=name, number=number, type=_TYPES.Type.Value(f"TYPE_{kind}"), label=_TYPES.LABEL_OPTIONAL)
    order.field.add(name="tags", number=4, type=_TYPES.TYPE_STRING, label=_TYPES.LABEL_REPEATED)
    order.field.add(
        name="address", number=5, type=_TYPES.TYPE_MESSAGE, type_name=".shop.Address", label=_TYPES.LABEL_OPTIONAL
    )
    if has_note:
        order.oneof_decl.add(name="_note")
        order.field.add(
            name="note",
            number=6,
            type=_TYPES.TYPE_STRING,
            label=_TYPES.LABEL_OPTIONAL,
            oneof_index=0,
            proto3_optional=True,
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def _guid_prefix(payload: bytes, context: _Context | None, schema: Any) -> bytes:
    """A GUID before the value. The library reads this form and has no serializer for it."""
    return bytes(schema.guid_to_bytes()) + payload


_FORM_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "id": {},
    "guid": {"schema.id.serializer": _guid_prefix},
    "header": {"schema.id.serializer": header_schema_id_serializer},
}


def _fill(producer: Producer, client: SchemaRegistryClient, topic: SerializedTopic) -> None:
    settings = dict(_FORM_SETTINGS[topic.form])
    writers = {has_note: _serializer(client, topic.format, settings, has_note=has_note) for has_note in (False, True)}
    of_key = AvroSerializer(client, json.dumps(_AVRO_KEY), conf=dict(settings))
    for row in range(ROWS):
        value, headers = _sent(row), [("row", str(row).encode())]
        key: Any = f"customer {row % 7}"
        if topic.format == "avro":
            key = of_key({"customer": key}, SerializationContext(topic.name, MessageField.KEY, headers))
        else:
            key = StringSerializer()(key)
        body = None
        if value is not None:
            context = SerializationContext(topic.name, MessageField.VALUE, headers)
            body = writers["note" in value](value, context)
        producer.produce(topic.name, body, key, headers=headers)
        producer.poll(0)


def _serializer(
    client: SchemaRegistryClient, format: str, settings: dict[str, Any], *, has_note: bool
) -> Callable[[_Value, _Context], bytes | None]:
    if format == "avro":
        return AvroSerializer(client, _avro_schema(client, *([_AVRO_NOTE] if has_note else [])), conf=settings)
    if format == "json":
        schema = _json_schema(note={"type": "string"}) if has_note else _json_schema()
        return JSONSerializer(schema, client, conf=settings)
    kind = _proto_class(has_note=has_note)
    serializer = ProtobufSerializer(kind, client, settings)
    return lambda value, context: serializer(kind(**value), context)


def _schemas_records(client: SchemaRegistryClient) -> Iterator[tuple[bytes, bytes]]:
    """Records of `_schemas`, packed as Confluent's registry packs them, for all versions of all subjects."""
    for subject in client.get_subjects():
        for version in client.get_versions(subject):
            known = client.get_version(subject, version)
            key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
            value: dict[str, Any] = {
                "subject": subject,
                "version": version,
                "id": known.schema_id,
                "md5": base64.b64encode(UUID(known.guid).bytes).decode(),
                "schema": known.schema.schema_str,
                "deleted": False,
            }
            if known.schema.schema_type != "AVRO":
                value["schemaType"] = known.schema.schema_type
            if known.schema.references:
                value["references"] = [
                    {"name": each.name, "subject": each.subject, "version": each.version}
                    for each in known.schema.references
                ]
            yield json.dumps(key, separators=(",", ":")).encode(), json.dumps(value, separators=(",", ":")).encode()


# What the library reads


def _consumed(servers: str, topic: str) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages: list[Message] = []
        while len(messages) < ROWS:
            more = consumer.consume(ROWS - len(messages), timeout=SECONDS)
            assert more, f"{topic}: {len(messages)} records within {SECONDS} s"
            assert not [message for message in more if message.error()]
            messages += more
        return messages
    finally:
        consumer.close()


def _read(client: SchemaRegistryClient, topic: SerializedTopic, message: Message) -> None:
    headers = message.headers() or []
    key = message.key()
    if topic.format == "avro":
        topic.keys.append(AvroDeserializer(client)(key, SerializationContext(topic.name, MessageField.KEY, headers)))
    else:
        topic.keys.append(key.decode())
    if message.value() is None:
        topic.values.append(None)
        return
    context = SerializationContext(topic.name, MessageField.VALUE, headers)
    topic.values.append(_DESERIALIZED[topic.format](client, message.value(), context))


def _of_avro(client: SchemaRegistryClient, body: bytes, context: _Context) -> _Value:
    """Read as the second schema: the library fills in the added field, by Avro's rules."""
    return dict(AvroDeserializer(client, _avro_schema(client, _AVRO_NOTE))(body, context))


def _of_json(client: SchemaRegistryClient, body: bytes, context: _Context) -> _Value:
    schema = _json_schema(note={"type": "string"})
    return {"note": None, **JSONDeserializer(schema, schema_registry_client=client)(body, context)}


def _of_protobuf(client: SchemaRegistryClient, body: bytes, context: _Context) -> _Value:
    found: Any = ProtobufDeserializer(_proto_class(has_note=True), {}, client)(body, context)
    return {
        **{name: getattr(found, name) for name in ("id", "customer", "price")},
        "tags": list(found.tags),
        "address": {"city": found.address.city} if found.HasField("address") else None,
        "note": found.note if found.HasField("note") else None,
    }


_DESERIALIZED: Mapping[str, Callable[[SchemaRegistryClient, bytes, _Context], _Value]] = {
    "avro": _of_avro,
    "json": _of_json,
    "protobuf": _of_protobuf,
}
