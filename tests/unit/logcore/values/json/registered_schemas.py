"""JSON Schemas of topics, and their values as Confluent's serializer writes and its deserializer reads them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from logcore.values.column import decode_column_plainly
from logcore.values.formats import decoder_of

NOT_INCLUDED = {"type": "null", "title": "Not included"}
TEXT = {"type": "string"}
OLD, NEW = "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"
PREFIX = 5
ROOT = "http://shop.example/root.json"


def order(*, draft: str = NEW, title: str = "Order", **keywords: Any) -> dict[str, Any]:
    return {"$schema": draft, "title": title, "type": "object"} | {
        {"defs": "$defs", "id": "$id", "ref": "$ref"}.get(name, name): content for name, content in keywords.items()
    }


def item(**keywords: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"sku": TEXT}, **keywords}


def with_x(x: dict[str, Any], **keywords: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": {"$ref": "#/definitions/X"}}, "definitions": {"X": x}, **keywords}


def values(
    schema: dict[str, Any], references: dict[str, Any], sent: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What their deserializer reads of their serializer's bytes, and what ours does."""
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    named = []
    for name, each in references.items():
        client.register_schema(name, Schema(json.dumps(each), "JSON"))
        named.append(SchemaReference(name, name, 1))
    known = Schema(json.dumps(schema), "JSON", named)
    serializer = JSONSerializer(known, client, to_dict=lambda value, _: value)
    deserializer = JSONDeserializer(known, schema_registry_client=client)
    context = SerializationContext("orders", MessageField.VALUE)
    bodies = [serializer(value, context) for value in sent]
    decoder = decoder_of("json", known.schema_str, {name: json.dumps(each) for name, each in references.items()})
    column = decode_column_plainly(decoder, pa.array([body[PREFIX:] for body in bodies]))
    assert column.failed == ()
    return [deserializer(body, context) for body in bodies], column.values.to_pylist()
