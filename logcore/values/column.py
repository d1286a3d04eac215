"""A column of keys or values in bytes becomes a typed column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from logcore.values.decoder import ValueDecoder
from logcore.values.undecodable import Undecodable


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A row that cannot be decoded. `row` counts from 0 in the column."""

    row: int
    failure: Undecodable


@dataclass(frozen=True, slots=True)
class DecodedColumn:
    """`values`: as many rows as the bytes had; null where the bytes were null and where a row failed."""

    values: pa.Array[Any]
    failed: tuple[FailedRow, ...]


def decode_column_plainly(decoder: ValueDecoder, bodies: pa.Array[Any]) -> DecodedColumn:
    """Decode row by row: the specification of every faster way.

    Args:
        decoder: Of the one schema that wrote all rows.
        bodies: `binary` or `large_binary`, without prefixes; null where there is no key or value.
    """
    values: list[object] = []
    failed: list[FailedRow] = []
    for row, body in enumerate(bodies.to_pylist()):
        value = None
        if body is not None:
            try:
                value = decoder.decode(body)
            except Undecodable as failure:
                failed.append(FailedRow(row, failure))
        values.append(value)
    return DecodedColumn(pa.array(values, type=decoder.arrow_type), tuple(failed))


def decode_column(decoder: ValueDecoder, bodies: pa.Array[Any]) -> DecodedColumn:
    """Decode a column the fastest way that is safe for its schema; the result equals `decode_column_plainly`."""
    return decode_column_plainly(decoder, bodies)
