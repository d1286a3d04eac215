"""A batch of rows of ``records`` becomes decoded rows and rows that could not be decoded: together all of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from logcore.values.column import DecodedColumn, decode_column, decode_column_plainly
from logcore.values.decoder import ValueDecoder
from logcore.values.undecodable import Undecodable
from spark_jobs.decode.decoding import TopicDecoding
from spark_jobs.lake.table_specs import TableSpec


@dataclass(frozen=True, slots=True)
class SplitRows:
    """Both parts, each in the order of the batch."""

    decoded: pa.RecordBatch
    undecoded: pa.RecordBatch
    reasons: Mapping[str, int]
    """Rows of ``undecoded`` by reason."""


def split_rows(
    batch: pa.RecordBatch, decoding: TopicDecoding, good: TableSpec, bad: TableSpec, *, is_plain: bool = False
) -> SplitRows:
    """Decode keys and values. A row whose key or value fails is in ``undecoded`` once, with the first failure.

    Args:
        batch: Rows with the columns of ``published_rows``.
        good: Columns of the decoded table.
        bad: Columns of the other one.
        is_plain: Whether to decode row by row, without native code.
    """
    key = _decoded(decoding.key, batch["key"], is_plain=is_plain)
    value = _decoded(decoding.value, batch["value"], is_plain=is_plain)
    failures: dict[int, tuple[str, Undecodable]] = {each.row: ("value", each.failure) for each in value.failed}
    failures |= {each.row: ("key", each.failure) for each in key.failed}
    rows = sorted(failures)
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
    for _, failure in failures.values():
        reasons[failure.reason.value] = reasons.get(failure.reason.value, 0) + 1
    if not rows:
        return SplitRows(decoded, pa.RecordBatch.from_pylist([], schema=_plain(bad)), reasons)
    taken = batch.take(pa.array(rows, pa.int64()))
    found = [failures[row] for row in rows]
    raw: dict[str, pa.Array[Any]] = {
        **{name: taken[name] for name in taken.schema.names},
        "part": pa.array([part for part, _ in found], pa.string()),
        "schema_id": pa.nulls(len(rows), pa.int64()),
        "reason": pa.array([failure.reason.value for _, failure in found], pa.string()),
        "place": pa.array([failure.place for _, failure in found], pa.string()),
        "detail": pa.array([failure.detail for _, failure in found], pa.string()),
    }
    return SplitRows(decoded.filter(pa.array(is_good)), _batch(raw, bad), reasons)


def _decoded(decoder: ValueDecoder | None, bodies: pa.Array[Any], *, is_plain: bool) -> DecodedColumn:
    if decoder is None:
        return DecodedColumn(bodies, ())
    return decode_column_plainly(decoder, bodies) if is_plain else decode_column(decoder, bodies)


def _plain(spec: TableSpec) -> pa.Schema:
    return spec.schema.remove_metadata()


def _batch(columns: Mapping[str, pa.Array[Any]], spec: TableSpec) -> pa.RecordBatch:
    schema = _plain(spec)
    return pa.RecordBatch.from_arrays([columns[field.name].cast(field.type) for field in schema], schema=schema)
