"""Protobuf schemas whose imports no registry knows: Confluent's serializers have these files built in."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.confluent import meta_pb2
from confluent_kafka.schema_registry.confluent.type import decimal_pb2
from confluent_kafka.schema_registry.confluent.type.decimal_utils import to_proto_decimal
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    json_format,
    message_factory,
    struct_pb2,
    wrappers_pb2,
)
from google.type import date_pb2, datetime_pb2, money_pb2

from spark_jobs.decode.protobuf import proto_schema
from tests.jobs.decoded_lake import Decoded
from tests.jobs.registered_schemas import Registered, named

TOPIC = "orders"
TEXT = """\
syntax = "proto3";
package shop;
import "confluent/meta.proto";
import "confluent/type/decimal.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/type/date.proto";
import "google/type/datetime.proto";
import "google/type/money.proto";
message Payment {
  option (confluent.message_meta) = { doc: "A payment." };
  string card = 1 [(confluent.field_meta) = { tags: [ "PII" ] params: [ { key: "a" value: "b" } ] }];
  google.type.Date day = 2;
  google.type.Money price = 3;
  confluent.type.Decimal fee = 4;
  google.type.DateTime made = 5;
  google.protobuf.Duration waited = 6;
  google.protobuf.StringValue note = 7;
}
"""
"""What Confluent's registry keeps of :func:`payment_file`: it turns compiled schemas into text."""
PLAIN = 'syntax = "proto3"; package shop; message Payment { string card = 1; }'
_KIND = descriptor_pb2.FieldDescriptorProto
_MESSAGES = (
    ("day", ".google.type.Date"),
    ("price", ".google.type.Money"),
    ("fee", ".confluent.type.Decimal"),
    ("made", ".google.type.DateTime"),
    ("waited", ".google.protobuf.Duration"),
    ("note", ".google.protobuf.StringValue"),
)


def payment_file() -> descriptor_pb2.FileDescriptorProto:
    """The schema of :data:`TEXT`, made by hand."""
    file = descriptor_pb2.FileDescriptorProto(name="shop/payment.proto", package="shop", syntax="proto3")
    imports = (meta_pb2, decimal_pb2, duration_pb2, wrappers_pb2, date_pb2, datetime_pb2, money_pb2)
    file.dependency.extend(each.DESCRIPTOR.name for each in imports)
    payment = file.message_type.add(name="Payment")
    payment.options.Extensions[meta_pb2.message_meta].doc = "A payment."
    card = payment.field.add(name="card", number=1, type=_KIND.TYPE_STRING, label=_KIND.LABEL_OPTIONAL)
    card.options.Extensions[meta_pb2.field_meta].tags.append("PII")
    card.options.Extensions[meta_pb2.field_meta].params["a"] = "b"
    for number, (name, kind) in enumerate(_MESSAGES, 2):
        payment.field.add(name=name, number=number, type=_KIND.TYPE_MESSAGE, type_name=kind, label=_KIND.LABEL_OPTIONAL)
    return file


def payment_class() -> Any:
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(payment_file().SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Payment"))


def sent(kind: Any) -> list[Any]:
    return [
        kind(
            card="4242",
            day=date_pb2.Date(year=2024, month=2, day=29),
            price=money_pb2.Money(currency_code="CHF", units=-7, nanos=-50_000_000),
            fee=to_proto_decimal(Decimal("-1234567890123456789.0123456789")),
            made=datetime_pb2.DateTime(year=2024, hours=23, time_zone=datetime_pb2.TimeZone(id="Europe/Zurich")),
            waited=duration_pb2.Duration(seconds=-3, nanos=-5),
            note=wrappers_pb2.StringValue(value="Grüezi"),
        ),
        kind(card="", fee=to_proto_decimal(Decimal("1E+3")), note=wrappers_pb2.StringValue()),
        kind(made=datetime_pb2.DateTime(utc_offset=duration_pb2.Duration(seconds=3600))),
        kind(),
    ]


def columns(message: Any) -> dict[str, Any]:
    """A message as the table has it: fields with presence are None if they are absent."""
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        content = getattr(message, field.name)
        if field.has_presence and not message.HasField(field.name):
            found[field.name] = None
        else:
            found[field.name] = columns(content) if field.message_type is not None else content
    return found


class Written:
    """Values by the library's serializer, with its registry in memory, and what its deserializer says."""

    def __init__(self) -> None:
        client = SchemaRegistryClient.new_client({"url": "mock://"})
        kind = payment_class()
        context = SerializationContext(TOPIC, MessageField.VALUE)
        serializer, deserializer = ProtobufSerializer(kind, client), ProtobufDeserializer(kind, {}, client)
        self.bodies = [serializer(each, context) for each in sent(kind)]
        self.values = [columns(deserializer(body, context)) for body in self.bodies]
        known = client.get_latest_version(f"{TOPIC}-value")
        assert known.schema.references == []  # that is the point
        self.id, self.compiled = known.schema_id, known.schema.schema_str


@pytest.fixture(scope="module")
def written() -> Written:
    return Written()


def lake_with(tmp_path: Path, id: int, schema: str, bodies: list[bytes]) -> Registered:
    lake = Registered(tmp_path, "protobuf")
    lake.register(id, schema, schemaType="PROTOBUF")
    lake.append(*((None, body) for body in bodies))
    return lake


@pytest.mark.parametrize("form", ["text", "compiled"])
def test_values_equal_those_of_the_deserializer_though_no_import_is_registered(
    tmp_path: Path, written: Written, form: str
) -> None:
    assert written.values[0]["price"] == {"currency_code": "CHF", "units": -7, "nanos": -50_000_000}
    assert written.values[1]["fee"] == {"value": b"\x01", "precision": 1, "scale": -3}
    lake = lake_with(tmp_path, written.id, TEXT if form == "text" else written.compiled, written.bodies)
    assert lake.said() is None
    assert lake.values() == written.values
    assert lake.reasons() == []


def test_a_proto_file_of_a_policy_has_the_same_imports(tmp_path: Path, written: Written) -> None:
    (tmp_path / "order.proto").write_text(TEXT)
    lake = Decoded(tmp_path, f"topics:\n  {TOPIC}:\n    decode.value: protobuf\n    decode.value.schema: order.proto\n")
    prefix = len(b"\0" + written.id.to_bytes(4, "big") + b"\0")
    lake.append(*((None, body[prefix:]) for body in written.bodies))
    lake.decode()
    assert [row["value"] for row in lake.rows()] == written.values


OWN_DATE = 'syntax = "proto3"; package google.type; message Date { string iso = 1; }'
OWN_USE = 'syntax = "proto3"; import "google/type/date.proto"; message Order { google.type.Date day = 1; }'


def own_date(form: str) -> tuple[str, str]:
    """A schema with another `google.type.Date` than Google's, and that one, as text or compiled by hand."""
    if form == "text":
        return OWN_USE, OWN_DATE
    if form != "compiled":
        return OWN_USE, own_date("compiled")[1]
    date = descriptor_pb2.FileDescriptorProto(name="google/type/date.proto", package="google.type", syntax="proto3")
    date.message_type.add(name="Date").field.add(
        name="iso", number=1, type=_KIND.TYPE_STRING, label=_KIND.LABEL_OPTIONAL
    )
    order = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3", dependency=[date.name])
    order.message_type.add(name="Order").field.add(
        name="day", number=1, type=_KIND.TYPE_MESSAGE, type_name=".google.type.Date", label=_KIND.LABEL_OPTIONAL
    )
    use, own = (base64.b64encode(each.SerializeToString()).decode() for each in (order, date))
    return use, own


@pytest.mark.parametrize("form", ["text", "compiled", "text that uses a compiled one"])
def test_a_reference_of_the_registry_comes_before_the_file_that_is_built_in(tmp_path: Path, form: str) -> None:
    use, own = own_date(form)
    lake = Registered(tmp_path, "protobuf")
    lake.register(1, own, "date", schemaType="PROTOBUF")
    reference = {"name": "google/type/date.proto", "subject": "date", "version": 1}
    lake.register(2, use, schemaType="PROTOBUF", references=[reference])
    lake.append((None, named(2, b"\x00\x0a\x06\x0a\x042024")))
    lake.decode()
    assert lake.values() == [{"day": {"iso": "2024"}}]


ITEM = (
    'syntax = "proto3"; package shop; import "google/type/money.proto"; message Item { google.type.Money price = 1; }'
)
USE = 'syntax = "proto3"; package shop; import "shop/item.proto"; message Order { repeated Item items = 1; }'


def compiled(name: str, field: str, *imported: str, label: int, type_name: str) -> str:
    """A file with one message of one field, as confluent-kafka registers it."""
    file = descriptor_pb2.FileDescriptorProto(name=name, package="shop", syntax="proto3", dependency=imported)
    file.message_type.add(name="Item" if field == "price" else "Order").field.add(
        name=field, number=1, type=_KIND.TYPE_MESSAGE, label=label, type_name=type_name
    )
    return base64.b64encode(file.SerializeToString()).decode()


@pytest.mark.parametrize("item", ["text", "compiled"])
@pytest.mark.parametrize("use", ["text", "compiled"])
def test_schemas_in_text_and_compiled_ones_may_refer_to_each_other(tmp_path: Path, use: str, item: str) -> None:
    """Registries that keep schemas as they get them have both."""
    optional, repeated = _KIND.LABEL_OPTIONAL, _KIND.LABEL_REPEATED
    money = compiled("item.proto", "price", "google/type/money.proto", label=optional, type_name=".google.type.Money")
    order = compiled("order.proto", "items", "shop/item.proto", label=repeated, type_name=".shop.Item")
    lake = Registered(tmp_path, "protobuf")
    lake.register(1, ITEM if item == "text" else money, "item", schemaType="PROTOBUF")
    reference = {"name": "shop/item.proto", "subject": "item", "version": 1}
    lake.register(2, USE if use == "text" else order, schemaType="PROTOBUF", references=[reference])
    lake.append((None, named(2, b"\x00\x0a\x07\x0a\x05\x0a\x03CHF")))
    assert lake.said() is None
    assert lake.values() == [{"items": [{"price": {"currency_code": "CHF", "units": 0, "nanos": 0}}]}]


@pytest.mark.parametrize(
    "name",
    [
        "google/type/nothing.proto",
        "google/rpc/status.proto",  # installed beside google/type
        "google/type/date_pb2.py",
        "confluent/nothing.proto",
        "shop/item.proto",
    ],
)
def test_an_import_that_is_not_known_is_a_bad_schema_and_is_named(tmp_path: Path, name: str) -> None:
    lake = Registered(tmp_path, "protobuf")
    lake.register(1, PLAIN, schemaType="PROTOBUF")
    lake.register(2, f'syntax = "proto3"; import "{name}"; message Payment {{}}', schemaType="PROTOBUF", version=2)
    lake.append((None, named(1, b"\x00\x0a\x014")), (None, named(2, b"\x00")))
    lake.decode()
    assert lake.values() == [{"card": "4"}]
    assert lake.reasons() == [(1, 2, "BAD_SCHEMA")]
    [row] = lake.rows("undecoded")
    assert row["detail"] == f"schema 2: it imports {name}, which is neither a reference of the schema nor built in."


EVENT = """\
syntax = "proto3";
package shop;
import "google/protobuf/struct.proto";
message Event { google.protobuf.Struct details = 1; repeated google.protobuf.Value values = 2; }
"""


def test_a_struct_of_google_is_json_text_that_equals_the_deserializer_s(tmp_path: Path) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="shop/event.proto", package="shop", syntax="proto3")
    file.dependency.append(struct_pb2.DESCRIPTOR.name)
    event = file.message_type.add(name="Event")
    for number, (name, kind, label) in enumerate(
        (("details", "Struct", _KIND.LABEL_OPTIONAL), ("values", "Value", _KIND.LABEL_REPEATED)), 1
    ):
        full = f".google.protobuf.{kind}"
        event.field.add(name=name, number=number, type=_KIND.TYPE_MESSAGE, type_name=full, label=label)
    descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
    kind = message_factory.GetMessageClass(descriptor_pool.Default().FindMessageTypeByName("shop.Event"))
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    context = SerializationContext(TOPIC, MessageField.VALUE)
    serializer, deserializer = ProtobufSerializer(kind, client), ProtobufDeserializer(kind, {}, client)
    sent = kind(details={"a": [1, None, {"b": True}], "c": "Grüezi"})
    sent.values.add(string_value="x")
    sent.values.add(number_value=0.5)
    body = serializer(sent, context)
    lake = lake_with(tmp_path, client.get_latest_version(f"{TOPIC}-value").schema_id, EVENT, [body])
    assert lake.said() is None
    [row] = lake.rows()
    found = {"details": json.loads(row["value"]["details"]), "values": list(map(json.loads, row["value"]["values"]))}
    assert found == json_format.MessageToDict(deserializer(body, context))


# Lakes of a version without built-in files


def without_built_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> Mapping[str, str]:
        return {}

    monkeypatch.setattr(proto_schema, "built_in_files", nothing)
    proto_schema._compiled_texts.cache_clear()


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    proto_schema._compiled_texts.cache_clear()


@pytest.mark.parametrize("form", ["text", "compiled"])
def test_a_topic_that_waited_for_its_only_schema_is_decoded_by_the_next_run(
    tmp_path: Path, written: Written, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_built_in_files(monkeypatch)
    lake = lake_with(tmp_path, written.id, TEXT if form == "text" else written.compiled, written.bodies)
    assert "can be used" in str(lake.said())
    forget(monkeypatch)
    assert lake.said() is None
    assert lake.values() == written.values


@pytest.mark.parametrize("form", ["text", "compiled"])
def test_rows_that_an_earlier_version_left_undecoded_stay_until_the_topic_is_replaced(
    tmp_path: Path, written: Written, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_built_in_files(monkeypatch)
    lake = Registered(tmp_path, "protobuf")
    lake.register(written.id + 1, PLAIN, schemaType="PROTOBUF")
    lake.register(written.id, TEXT if form == "text" else written.compiled, schemaType="PROTOBUF", version=2)
    lake.append((None, named(written.id + 1, b"\x00\x0a\x014")), *((None, body) for body in written.bodies))
    lake.decode()
    refused = [(at, written.id, "BAD_SCHEMA") for at in range(1, len(written.bodies) + 1)]
    assert (lake.values(), lake.reasons()) == ([{"card": "4"}], refused)
    forget(monkeypatch)
    lake.append((None, written.bodies[0]))
    assert lake.said() is None
    assert lake.reasons() == refused
    first = {**dict.fromkeys(written.values[0]), "card": "4"}
    assert lake.values() == [first, written.values[0]]
    lake.decode(replace=(TOPIC,))
    assert lake.values() == [first, *written.values, written.values[0]]
    assert lake.reasons() == []
