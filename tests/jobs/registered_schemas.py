"""A lake with a decoded topic and the topic `_schemas`, both written by hand at the source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID
from tests.jobs.decoded_lake import Decoded

POLICIES = "topics:\n  orders:\n    decode.key: string\n    decode.value: {format}\n    decode.schemas: {place}\n{more}"


def zigzag(value: int) -> bytes:
    """A number as Avro and the indexes of Protobuf messages have it."""
    return handmade.varint(value)


def text(value: str) -> bytes:
    """Text as Avro has it."""
    return zigzag(len(value.encode())) + value.encode()


def named(schema: int, body: bytes) -> bytes:
    """A value with byte 0 and the id of its schema before it."""
    return b"\0" + schema.to_bytes(4, "big") + body


def avro(*fields: dict[str, Any]) -> str:
    """An Avro schema of a record."""
    return json.dumps({"type": "record", "name": "Order", "fields": list(fields)})


class Registered(Decoded):
    """The lake, its source and its policies."""

    def __init__(self, tmp_path: Path, format: str = "avro", place: str = "_schemas", more: str = "") -> None:
        super().__init__(tmp_path, POLICIES.format(format=format, place=place, more=more))
        self.registry = self.source.partition("_schemas-0", OTHER_TOPIC_ID)
        self.registry.roll()

    def policy(self, more: str, format: str = "avro", place: str = "_schemas") -> None:
        """Write the policies again."""
        self.policies.write_text(POLICIES.format(format=format, place=place, more=more))

    def register(self, id: int, schema: str, subject: str = "orders-value", version: int = 1, **more: Any) -> None:
        """Write a version of a subject; it is published with the next rows."""
        key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
        value = {"subject": subject, "version": version, "id": id, "schema": schema, "deleted": False, **more}
        self.registry.write(
            handmade.simple_batch(
                self.registry.next_offset,
                [(json.dumps(key).encode(), json.dumps(value).encode())],
                base_timestamp=1_700_000_000_000,
                leader_epoch=0,
            )
        )
        self.registry.next_offset += 1
        self.marks["_schemas_0"] = self.registry.next_offset

    def with_headers(self, *rows: tuple[bytes, list[tuple[bytes, bytes]]]) -> None:
        """Write values with headers, and publish them."""
        if not self.orders.segments():
            self.orders.roll()
        records = [handmade.record(at, None, value, headers=headers) for at, (value, headers) in enumerate(rows)]
        self.orders.write(
            handmade.batch(records, base_offset=self.orders.next_offset, base_timestamp=1_700_000_000_000)
        )
        self.orders.next_offset += len(rows)
        self.marks["orders_0"] = self.orders.next_offset
        self.publish()

    def values(self) -> list[object]:
        """Decoded values in the order of offsets."""
        return [row["value"] for row in self.rows()]

    def reasons(self) -> list[tuple[int, int | None, str]]:
        """(offset, schema id, reason) of rows that were not decoded."""
        return [(row["offset"], row["schema_id"], row["reason"]) for row in self.rows("undecoded")]

    def said(self) -> str | None:
        """Decode, and return why the topic waits."""
        return self.decode().plan.topics[0].waits
