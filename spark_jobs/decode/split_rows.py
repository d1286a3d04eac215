"""A batch of rows of ``records`` becomes decoded rows and rows that could not be decoded: together all of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from logcore.values.column import DecodedColumn, decode_column, decode_column_plainly
from logcore.values.decoder import ValueDecoder
from logcore.values.evolution.written_column import WrittenColumnDecoder
from logcore.values.undecodable import Reason
from logcore.values.wire.prefix import KEY_HEADER, VALUE_HEADER, SchemaId
from logcore.values.wire.split_column import header_column
from spark_jobs.decode.decoding import TopicDecoding
from spark_jobs.lake.table_specs import TableSpec

_HEADERS = {"key": KEY_HEADER, "value": VALUE_HEADER}


@dataclass(frozen=True, slots=True)
class SchemaStop:
    """The first row whose schema cannot be aligned with the table."""

    offset: int
    why: str


@dataclass(frozen=True, slots=True)
class SplitRows:
    """Both parts, each in the order of the batch."""

    decoded: pa.RecordBatch
    undecoded: pa.RecordBatch
    reasons: Mapping[str, int]
    """Rows of ``undecoded`` by reason."""
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
) -> SplitRows:
    """Decode keys and values. A row whose key or value fails is in ``undecoded`` once, with the first failure.

    Args:
        batch: Rows with the columns of ``published_rows``.
        good: Columns of the decoded table.
        bad: Columns of the other one.
        is_plain: Whether to decode row by row, without native code.
        stops: Whether the parts end before the first row whose schema cannot be aligned with the table. Otherwise such
            rows are in ``undecoded``.
    """
    key = _decoded(decoding.key, batch, "key", is_plain=is_plain)
    value = _decoded(decoding.value, batch, "value", is_plain=is_plain)
    failures = {each.row: ("value", each) for each in value.failed}
    failures |= {each.row: ("key", each) for each in key.failed}
    rows = sorted(failures)
    first = next((row for row in rows if failures[row][1].failure.reason == Reason.INCOMPATIBLE_SCHEMA), None)
    if stops and first is not None:
        part, failed = failures[first]
        stop = SchemaStop(batch["offset"][first].as_py(), f"{part}: {failed.failure.detail}")
        return replace(split_rows(batch.slice(0, first), decoding, good, bad, is_plain=is_plain), stop=stop)
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
        reason = failed.failure.reason.value
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


def _decoded(
    decoder: ValueDecoder | WrittenColumnDecoder | None, batch: pa.RecordBatch, part: str, *, is_plain: bool
) -> DecodedColumn:
    bodies = batch[part]
    if decoder is None:
        return DecodedColumn(bodies, ())
    if isinstance(decoder, WrittenColumnDecoder):
        headers: Any = batch["headers"]
        return decoder.decode(bodies, header_column(headers, _HEADERS[part]), is_plain=is_plain)
    return decode_column_plainly(decoder, bodies) if is_plain else decode_column(decoder, bodies)


def _number(schema: SchemaId | None) -> int | None:
    """The id; a GUID is in the text of `detail` only."""
    return schema if isinstance(schema, int) else None


def _plain(spec: TableSpec) -> pa.Schema:
    return spec.schema.remove_metadata()


def _batch(columns: Mapping[str, pa.Array[Any]], spec: TableSpec) -> pa.RecordBatch:
    schema = _plain(spec)
    return pa.RecordBatch.from_arrays([columns[field.name].cast(field.type) for field in schema], schema=schema)
