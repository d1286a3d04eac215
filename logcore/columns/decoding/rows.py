"""From a kernel's output to an Arrow batch: the buffers that it writes to, and the columns made of them.

Buffers that are almost filled (numbers, values) belong to Arrow and become columns without a copy. Buffers that are
mostly unused (keys, record headers) are reused scratch space and are copied. Columns with the same value in every row
are made once and sliced.
"""

from __future__ import annotations

import ctypes
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from logcore.columns.kernels.call_frames import SLACK, Address, address_of
from logcore.columns.kernels.decoding.decoding_frames import RecordsFrame
from logcore.columns.records_columns import HEADER_TYPE
from logcore.columns.wanted import Place, Wanted
from logcore.texts import java_text, utf8_text

_HELD_BYTES = 32 << 20
"""Scratch space grown beyond this for one table is given back afterwards."""

_NUMBERS = {
    "offset": "to_offsets",
    "timestamp_ms": "to_timestamps_ms",
    "timestampType": "to_types",
    "position": "to_positions",
}
"""Columns of numbers that are never null, each with the field of the frame that has the address of its buffer."""


class RowBuffers:
    """Buffers for the rows of successive kernel calls."""

    takes_any_name = True

    def __init__(self, wanted: Wanted, place: Place) -> None:
        self._schema = wanted.schema
        self._names = frozenset(self._schema.names)
        self._pool = memory_pool()
        self._scratch: dict[str, tuple[int, Address, np.ndarray]] = {}
        self._place = place
        self._repeated: dict[str, pa.Array[Any]] = {}
        self._buffers: dict[str, pa.Buffer] = {}
        self._names_read: list[bytes] | None = None

    def prepare(self, frame: RecordsFrame, rows: int, nbytes: int, headers: int) -> None:
        """Set the frame's buffers for `rows` rows with at most `nbytes` bytes and `headers` record headers."""
        frame.row_capacity = rows
        frame.null_epochs = 0
        self._buffers = {}
        names = self._names
        bits = (rows + 7) // 8 + SLACK
        for name, buffer in _NUMBERS.items():
            if name in names:
                setattr(frame, buffer, self._give(buffer, self._schema.field(name).type.bit_width // 8 * rows))
        if "timestamp" in names:
            frame.to_timestamps = self._give("to_timestamps", 8 * rows)
            frame.to_timestamp_validity = self._give("to_timestamp_validity", bits)
        if "leader_epoch" in names:
            frame.to_epochs = self._give("to_epochs", 4 * rows)
            frame.to_epoch_validity = self._give("to_epoch_validity", bits)
        if "key" in names:
            frame.to_key_ends = self._give("to_key_ends", 4 * (rows + 1))
            frame.to_key_validity = self._give("to_key_validity", bits)
            frame.to_keys = self._lend("to_keys", nbytes)
        if "value" in names:
            frame.to_value_ends = self._give("to_value_ends", 4 * (rows + 1))
            frame.to_value_validity = self._give("to_value_validity", bits)
            frame.to_values = self._give("to_values", nbytes + SLACK)
        if "headers" in names or "header_keys_raw" in names:
            frame.to_header_ends = self._lend("to_header_ends", 4 * (rows + 1))
            frame.to_header_validity = self._lend("to_header_validity", bits)
            frame.to_name_ends = self._lend("to_name_ends", 4 * (headers + 1))
            frame.to_names = self._lend("to_names", nbytes)
            frame.to_header_value_ends = self._lend("to_header_value_ends", 4 * (headers + 1))
            frame.to_header_values = self._lend("to_header_values", nbytes)
            frame.to_header_value_validity = self._lend("to_header_value_validity", headers // 8 + 8)

    def _give(self, name: str, nbytes: int) -> Address:
        """Allocate a buffer that becomes part of a column."""
        buffer = pa.allocate_buffer(nbytes, memory_pool=self._pool)
        self._buffers[name] = buffer
        return Address(buffer.address)

    def _lend(self, name: str, nbytes: int) -> Address:
        """Return scratch space."""
        nbytes += SLACK
        held = self._scratch.get(name)
        if held is None or held[0] < nbytes or (held[0] > _HELD_BYTES and nbytes <= _HELD_BYTES):
            memory = np.empty(max(nbytes, 1 << 16), np.uint8)
            held = self._scratch[name] = memory.size, address_of(memory), memory
        return held[1]

    def finish(self, frame: RecordsFrame) -> pa.RecordBatch:
        """Return the rows that a kernel wrote."""
        rows = frame.rows
        self._names_read = self._read_names(frame) if frame.names_not_utf8 else None
        columns = [self._column(name, frame, rows) for name in self._schema.names]
        self._buffers = {}
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, name: str, frame: RecordsFrame, rows: int) -> pa.Array[Any]:
        given = self._buffers
        if name in _NUMBERS:
            return _plain(self._schema.field(name).type, rows, given[_NUMBERS[name]])
        if name == "key":
            keys = _copied(frame.to_keys, frame.key_bytes, self._pool)
            return _binary(rows, given["to_key_ends"], keys, given["to_key_validity"], frame.null_keys)
        if name == "value":
            values, used = given["to_values"], frame.value_bytes
            if 2 * used < values.size:
                values = _copied(values.address, used, self._pool)
            ends, bits = given["to_value_ends"], given["to_value_validity"]
            return _binary(rows, ends, values, bits, frame.null_values)
        if name == "headers":
            return self._headers(frame, rows)
        if name == "timestamp":
            bits, nulls = given["to_timestamp_validity"], frame.null_timestamps
            return _plain(pa.timestamp("us", tz="UTC"), rows, given["to_timestamps"], bits, nulls)
        if name == "leader_epoch":
            bits, nulls = given["to_epoch_validity"], frame.null_epochs
            return _plain(pa.int32(), rows, given["to_epochs"], bits, nulls)
        if name == "header_keys_raw" and self._names_read is not None:
            return self._raw_names(frame, rows, self._names_read)
        return self._constant(name, rows)

    def _read_names(self, frame: RecordsFrame) -> list[bytes]:
        """Return the names of all headers as stored."""
        ends = _int32(frame.to_name_ends, frame.header_count + 1)
        names = ctypes.string_at(frame.to_names, frame.name_bytes)
        return [names[start:end] for start, end in pairwise(ends)]

    def _raw_names(self, frame: RecordsFrame, rows: int, names: list[bytes]) -> pa.Array[Any]:
        """Return the names of each row with a name that is not UTF-8; null for any other row."""
        foreign = {name for name in set(names) if utf8_text(name) is None}
        of_rows = [names[start:end] for start, end in pairwise(_int32(frame.to_header_ends, rows + 1))]
        return pa.array([None if foreign.isdisjoint(each) else each for each in of_rows], pa.list_(pa.binary()))

    def _constant(self, name: str, rows: int) -> pa.Array[Any]:
        held = self._repeated.get(name)
        if held is None or len(held) < rows:
            held = self._repeated[name] = _repeated(name, self._place, rows)
        return held.slice(0, rows)

    def _headers(self, frame: RecordsFrame, rows: int) -> pa.Array[Any]:
        count = frame.header_count
        if count == 0 and frame.null_headers == rows:
            return pa.nulls(rows, pa.list_(HEADER_TYPE))

        def out(address: Address, nbytes: int) -> pa.Buffer:
            return _copied(address, nbytes, self._pool)

        if self._names_read is None:
            ends, text = out(frame.to_name_ends, 4 * (count + 1)), out(frame.to_names, frame.name_bytes)
            names = pa.Array.from_buffers(pa.string(), count, [None, ends, text], 0)
        else:
            decoded = {name: java_text(name) for name in set(self._names_read)}
            names = pa.array([decoded[name] for name in self._names_read], pa.string())
        values = _binary(
            count,
            out(frame.to_header_value_ends, 4 * (count + 1)),
            out(frame.to_header_values, frame.header_value_bytes),
            out(frame.to_header_value_validity, (count + 7) // 8),
            frame.null_header_values,
        )
        pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADER_TYPE))
        nulls = frame.null_headers
        bits = out(frame.to_header_validity, (rows + 7) // 8) if nulls else None
        ends = out(frame.to_header_ends, 4 * (rows + 1))
        return pa.Array.from_buffers(pa.list_(HEADER_TYPE), rows, [bits, ends], nulls, 0, [pairs])


def _int32(address: int, count: int) -> list[int]:
    return (ctypes.c_int32 * count).from_address(address)[:]


def _repeated(name: str, place: Place, rows: int) -> pa.Array[Any]:
    """Make a column with the same value in every row, from buffers: `pa.scalar` and `pa.array` would import pandas."""
    if name == "header_keys_raw":
        return pa.nulls(rows, pa.list_(pa.binary()))
    if name == "partition":
        return _plain(pa.int32(), rows, pa.py_buffer(np.full(rows, place.partition, np.int32)))  # type: ignore[arg-type]
    text = str(getattr(place, name)).encode()
    ends = np.arange(rows + 1, dtype=np.int32) * np.int32(len(text))
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(ends), pa.py_buffer(text * rows)], 0)  # type: ignore[arg-type]


def memory_pool() -> pa.MemoryPool:
    """The memory pool of the kernels' rows: mimalloc, because the others are slow with buffers of about a megabyte."""
    try:
        return pa.mimalloc_memory_pool()
    except NotImplementedError:
        return pa.default_memory_pool()


def _plain(
    kind: pa.DataType, rows: int, data: pa.Buffer, bits: pa.Buffer | None = None, nulls: int = 0
) -> pa.Array[Any]:
    return pa.Array.from_buffers(kind, rows, [bits if nulls else None, data], nulls)


def _binary(rows: int, ends: pa.Buffer, data: pa.Buffer, bits: pa.Buffer, nulls: Any) -> pa.Array[Any]:
    nulls = int(nulls)
    return pa.Array.from_buffers(pa.binary(), rows, [bits if nulls else None, ends, data], nulls)


def _copied(address: int, nbytes: int, pool: pa.MemoryPool) -> pa.Buffer:
    buffer = pa.allocate_buffer(nbytes, memory_pool=pool)
    ctypes.memmove(buffer.address, address, nbytes)
    return buffer
