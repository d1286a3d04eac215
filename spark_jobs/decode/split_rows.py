"""A batch of rows of ``records`` becomes decoded rows and rows that could not be decoded: together all of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logcore.values.column import DecodedColumn, FailedRow, decode_column, decode_column_plainly
from logcore.values.decoder import ValueDecoder
from logcore.values.evolution.written_column import WrittenColumnDecoder
from logcore.values.prefix import KEY_HEADER, VALUE_HEADER, SchemaId
from logcore.values.split_column import header_column
from logcore.values.undecodable import Reason, Undecodable
from spark_jobs.decode.decoding import TopicDecoding
from spark_jobs.lake.table_spec import TableSpec

_HEADERS = {"key": KEY_HEADER, "value": VALUE_HEADER}


@dataclass(frozen=True, slots=True)
class SchemaStop:
    """The first row whose schema cannot be aligned with the table."""

    offset: int
    why: str
    is_wider: bool = False
    """Whether the row is decoded once the table is written again."""


@dataclass(frozen=True, slots=True)
class SplitRows:
    """Both parts, each in the order of the batch."""

    decoded: pa.RecordBatch
    undecoded: pa.RecordBatch
    reasons: Mapping[str, int]
    """Rows of ``undecoded`` by reason, with the framing of another registry where one is seen."""
    stop: SchemaStop | None = None
    """The parts have only the rows before it."""


def split_rows(
    batch: pa.RecordBatch,
    decoding: TopicDecoding,
    good: TableSpec,
    bad: TableSpec,
    *,
    is_plain: bool = False,
    stops: bool = False,
    given_up: Mapping[int, str] = MappingProxyType({}),
) -> SplitRows:
    """Decode keys and values. A row whose key or value fails is in ``undecoded`` once, with the first failure.

    Args:
        batch: Rows with the columns of ``published_rows``.
        good: Columns of the decoded table.
        bad: Columns of the other one.
        is_plain: Whether to decode row by row, without native code.
        stops: Whether the parts end before the first row whose schema cannot be aligned with the table. Otherwise such
            rows are in ``undecoded``.
        given_up: Parts that end the process that decodes them, by offset: ``key``, after which the value is not decoded
            either, or ``value``. Their rows are in ``undecoded``.
    """
    lost = _rows_of(batch, given_up)
    key = _decoded(decoding.key, batch, "key", [row for row in lost if lost[row] == "key"], is_plain=is_plain)
    value = _decoded(decoding.value, batch, "value", list(lost), is_plain=is_plain)
    failures = {each.row: ("value", each) for each in value.failed}
    failures |= {each.row: ("key", each) for each in key.failed}
    rows = sorted(failures)
    first = next((row for row in rows if failures[row][1].failure.reason == Reason.INCOMPATIBLE_SCHEMA), None)
    if stops and first is not None:
        part, failed = failures[first]
        decoder = decoding.key if part == "key" else decoding.value
        is_wider = isinstance(decoder, WrittenColumnDecoder) and decoder.needs_wider(failed.schema)
        stop = SchemaStop(batch["offset"][first].as_py(), f"{part}: {failed.failure.detail}", is_wider)
        before = batch.slice(0, first)
        return replace(split_rows(before, decoding, good, bad, is_plain=is_plain, given_up=given_up), stop=stop)
    is_good = np.ones(batch.num_rows, dtype=bool)
    is_good[rows] = False
    typed: dict[str, pa.Array[Any]] = {
        **{name: batch[name] for name in batch.schema.names},
        "key": key.values,
        "value": value.values,
        "is_tombstone": batch["value"].is_null(),
    }
    decoded = _batch(typed, good)
    reasons: dict[str, int] = {}
    for _, failed in failures.values():
        framing = failed.failure.framing
        reason = failed.failure.reason.value + (f" ({framing})" if framing else "")
        reasons[reason] = reasons.get(reason, 0) + 1
    if not rows:
        return SplitRows(decoded, pa.RecordBatch.from_pylist([], schema=_plain(bad)), reasons)
    taken = batch.take(pa.array(rows, pa.int64()))
    found = [failures[row] for row in rows]
    raw: dict[str, pa.Array[Any]] = {
        **{name: taken[name] for name in taken.schema.names},
        "part": pa.array([part for part, _ in found], pa.string()),
        "schema_id": pa.array([_number(failed.schema) for _, failed in found], pa.int64()),
        "reason": pa.array([failed.failure.reason.value for _, failed in found], pa.string()),
        "place": pa.array([failed.failure.place for _, failed in found], pa.string()),
        "detail": pa.array([failed.failure.detail for _, failed in found], pa.string()),
    }
    return SplitRows(decoded.filter(pa.array(is_good)), _batch(raw, bad), reasons)


def _rows_of(batch: pa.RecordBatch, given_up: Mapping[int, str]) -> dict[int, str]:
    """The parts that are given up, by the row in the batch."""
    if not given_up:
        return {}
    offsets: list[int] = np.asarray(batch["offset"]).tolist()
    return {row: given_up[offset] for row, offset in enumerate(offsets) if offset in given_up}


def _decoded(
    decoder: ValueDecoder | WrittenColumnDecoder | None,
    batch: pa.RecordBatch,
    part: str,
    given_up: Sequence[int],
    *,
    is_plain: bool,
) -> DecodedColumn:
    bodies: Any = batch[part]
    if given_up:
        is_lost = np.zeros(batch.num_rows, dtype=bool)
        is_lost[given_up] = True
        bodies = pc.if_else(pa.array(is_lost), pa.scalar(None, bodies.type), bodies)
    if decoder is None:
        column = DecodedColumn(bodies, ())
    elif isinstance(decoder, WrittenColumnDecoder):
        column = decoder.decode(bodies, _named_in(batch, part), is_plain=is_plain)
    else:
        column = decode_column_plainly(decoder, bodies) if is_plain else decode_column(decoder, bodies)
    if not given_up:
        return column
    return replace(column, failed=(*column.failed, *(_lost(decoder, batch, part, row) for row in given_up)))


def _named_in(batch: pa.RecordBatch, part: str) -> pa.Array[Any] | None:
    """What headers say of the schemas of keys or values."""
    headers: Any = batch["headers"]
    return header_column(headers, _HEADERS[part])


def _lost(decoder: ValueDecoder | WrittenColumnDecoder | None, batch: pa.RecordBatch, part: str, row: int) -> FailedRow:
    """A key or value that is given up; the id of its schema is read, which is not decoded."""
    schema = None
    body = batch[part][row].as_py()
    if body is not None and isinstance(decoder, WrittenColumnDecoder):
        named = _named_in(batch.slice(row, 1), part)
        schema = decoder.schema_of(body, None if named is None else named[0].as_py())
    return FailedRow(row, Undecodable(Reason.DECODER_DIED, "", "the process that decoded it died on each try"), schema)


def _number(schema: SchemaId | None) -> int | None:
    """The id; a GUID is in the text of `detail` only."""
    return schema if isinstance(schema, int) else None


def _plain(spec: TableSpec) -> pa.Schema:
    return spec.schema.remove_metadata()


def _batch(columns: Mapping[str, pa.Array[Any]], spec: TableSpec) -> pa.RecordBatch:
    schema = _plain(spec)
    return pa.RecordBatch.from_arrays([columns[field.name].cast(field.type) for field in schema], schema=schema)
