"""Rows of several schemas of one subject, decoded as one column, the fast way and row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from logcore.values.evolution.topic_writers import RefusedWriter, SchemaNaming, TopicWriters, topic_writers
from logcore.values.evolution.written_column import WrittenColumnDecoder
from logcore.values.form import ValueColumn
from logcore.values.prefix import Framing
from logcore.values.registry.schemas import RegisteredSchema, Schemas

SUBJECT = "orders-value"


@dataclass(frozen=True)
class Read:
    """Values in the order of the rows, and reasons of rows that failed."""

    kind: pa.DataType
    values: list[Any]
    failed: dict[int, str]


def writers_of(format: str, texts: Sequence[str], table: ValueColumn | None = None) -> TopicWriters:
    """The schemas, with the ids 1, 2, …"""
    found = {(".", at): RegisteredSchema(at, format, text) for at, text in enumerate(texts, 1)}
    owners = {name: frozenset([SUBJECT]) for name in found}
    naming = SchemaNaming(format, (SUBJECT,), Framing.PREFIX)
    return topic_writers(Schemas(found, owners, {}), naming, "value", table)


def refused(writers: TopicWriters) -> dict[int, RefusedWriter]:
    """Schemas that are not decoded, by id."""
    return {int(str(id)): each for id, each in writers.known.items() if isinstance(each, RefusedWriter)}


def read(writers: TopicWriters, rows: Sequence[tuple[int, bytes]]) -> Read:
    """Decode rows, each the id of its schema and its bytes."""
    naming = writers.naming.format
    between = b"\0" if naming == "protobuf" else b""
    bodies = pa.array([b"\0" + id.to_bytes(4, "big") + between + body for id, body in rows], pa.binary())
    decoder = WrittenColumnDecoder(writers)
    fast, plain = decoder.decode(bodies), decoder.decode(bodies, is_plain=True)
    fast.values.validate(full=True)
    plain.values.validate(full=True)
    assert repr(fast.values.to_pylist()) == repr(plain.values.to_pylist())
    reasons = [{each.row: each.failure.reason.value for each in way.failed} for way in (fast, plain)]
    assert reasons[0] == reasons[1]
    return Read(fast.values.type, fast.values.to_pylist(), reasons[0])
