"""A column of keys or values in bytes becomes a typed column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logcore.values.decoder import ValueDecoder
from logcore.values.prefix import SchemaId
from logcore.values.undecodable import Undecodable


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A row that cannot be decoded. `row` counts from 0 in the column."""

    row: int
    failure: Undecodable
    schema: SchemaId | None = None
    """The schema that the row names; None: it names none, or that could not be read."""


@dataclass(frozen=True, slots=True)
class DecodedColumn:
    """`values`: as many rows as the bytes had; null where the bytes were null and where a row failed."""

    values: pa.Array[Any]
    failed: tuple[FailedRow, ...]


@dataclass(frozen=True, slots=True)
class DecodedBlock:
    """`values`: as many rows as the bytes had. Rows in `doubts`, in order, are null: they are left to the plain way."""

    values: pa.Array[Any]
    doubts: npt.NDArray[np.int64]


@runtime_checkable
class BlockDecoder(Protocol):
    """A decoder that can also decode many rows at once."""

    def decode_block(self, bodies: pa.Array[Any]) -> DecodedBlock | None:
        """Decode the rows that are certain; None where there is no fast way for the schema or on this machine."""
        ...


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
    """Decode a column the fastest way that is safe for its schema; the result equals `decode_column_plainly`.

    Rows that a fast way doubts are decoded plainly, and take their places among the others.
    """
    block = decoder.decode_block(bodies) if isinstance(decoder, BlockDecoder) else None
    if block is None:
        return decode_column_plainly(decoder, bodies)
    if not len(block.doubts):
        return DecodedColumn(block.values, ())
    plain = decode_column_plainly(decoder, bodies.take(block.doubts))
    places = np.arange(len(bodies))
    places[block.doubts] = len(bodies) + np.arange(len(block.doubts))
    both: pa.Array[Any] = pa.concat_arrays([block.values, plain.values])
    failed = tuple(replace(each, row=int(block.doubts[each.row])) for each in plain.failed)
    return DecodedColumn(both.take(places), failed)
