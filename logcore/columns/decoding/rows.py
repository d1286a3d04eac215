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

from logcore.columns.kernels import slots
from logcore.columns.reference import decode_header_name, is_utf8
from logcore.columns.schema import HEADER_TYPE
from logcore.columns.wanted import Place, Wanted

_HELD_BYTES = 32 << 20
"""Scratch space grown beyond this for one table is given back afterwards."""


class RowBuffers:
    """Buffers for the rows of successive kernel calls."""

    takes_any_name = True

    def __init__(self, wanted: Wanted, place: Place) -> None:
        self._schema = wanted.schema
        self._names = frozenset(self._schema.names)
        self._pool = memory_pool()
        self._scratch: dict[int, tuple[int, int, np.ndarray]] = {}
        self._place = place
        self._repeated: dict[str, pa.Array[Any]] = {}
        self._buffers: dict[int, pa.Buffer] = {}
        self._names_read: list[bytes] | None = None

    def prepare(self, frame: np.ndarray, rows: int, nbytes: int, headers: int) -> None:
        """Set the frame's buffers for `rows` rows with at most `nbytes` bytes and `headers` record headers."""
        frame[slots.ROW_CAPACITY] = rows
        frame[slots.NULL_EPOCHS] = 0
        self._buffers = {}
        names = self._names
        bits = (rows + 7) // 8 + slots.SLACK
        if "offset" in names:
            self._give(frame, slots.TO_OFFSETS, 8 * rows)
        if "timestamp" in names:
            self._give(frame, slots.TO_TIMESTAMPS, 8 * rows)
            self._give(frame, slots.TO_TIMESTAMP_VALIDITY, bits)
        if "timestamp_ms" in names:
            self._give(frame, slots.TO_TIMESTAMPS_MS, 8 * rows)
        if "timestampType" in names:
            self._give(frame, slots.TO_TYPES, 4 * rows)
        if "leader_epoch" in names:
            self._give(frame, slots.TO_EPOCHS, 4 * rows)
            self._give(frame, slots.TO_EPOCH_VALIDITY, bits)
        if "position" in names:
            self._give(frame, slots.TO_POSITIONS, 8 * rows)
        if "key" in names:
            self._give(frame, slots.TO_KEY_ENDS, 4 * (rows + 1))
            self._give(frame, slots.TO_KEY_VALIDITY, bits)
            self._lend(frame, slots.TO_KEYS, nbytes)
        if "value" in names:
            self._give(frame, slots.TO_VALUE_ENDS, 4 * (rows + 1))
            self._give(frame, slots.TO_VALUE_VALIDITY, bits)
            self._give(frame, slots.TO_VALUES, nbytes + slots.SLACK)
        if "headers" in names or "header_keys_raw" in names:
            self._lend(frame, slots.TO_HEADER_ENDS, 4 * (rows + 1))
            self._lend(frame, slots.TO_HEADER_VALIDITY, bits)
            self._lend(frame, slots.TO_NAME_ENDS, 4 * (headers + 1))
            self._lend(frame, slots.TO_NAMES, nbytes)
            self._lend(frame, slots.TO_HEADER_VALUE_ENDS, 4 * (headers + 1))
            self._lend(frame, slots.TO_HEADER_VALUES, nbytes)
            self._lend(frame, slots.TO_HEADER_VALUE_VALIDITY, headers // 8 + 8)

    def _give(self, frame: np.ndarray, slot: int, nbytes: int) -> None:
        buffer = pa.allocate_buffer(nbytes, memory_pool=self._pool)
        self._buffers[slot] = buffer
        frame[slot] = buffer.address

    def _lend(self, frame: np.ndarray, slot: int, nbytes: int) -> None:
        nbytes += slots.SLACK
        held = self._scratch.get(slot)
        if held is None or held[0] < nbytes or (held[0] > _HELD_BYTES and nbytes <= _HELD_BYTES):
            memory = np.empty(max(nbytes, 1 << 16), np.uint8)
            held = self._scratch[slot] = memory.size, int(memory.ctypes.data), memory
        frame[slot] = held[1]

    def finish(self, frame: np.ndarray) -> pa.RecordBatch:
        """Return the rows that a kernel wrote."""
        rows = int(frame[slots.ROWS])
        self._names_read = self._read_names(frame) if frame[slots.EMITTED_NOT_UTF8] else None
        columns = [self._column(name, frame, rows) for name in self._schema.names]
        self._buffers = {}
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, name: str, frame: np.ndarray, rows: int) -> pa.Array[Any]:
        given = self._buffers
        if name == "offset":
            return _plain(pa.int64(), rows, given[slots.TO_OFFSETS])
        if name == "key":
            keys = _copied(int(frame[slots.TO_KEYS]), int(frame[slots.KEY_BYTES]), self._pool)
            return _binary(rows, given[slots.TO_KEY_ENDS], keys, given[slots.TO_KEY_VALIDITY], frame[slots.NULL_KEYS])
        if name == "value":
            values, used = given[slots.TO_VALUES], int(frame[slots.VALUE_BYTES])
            if 2 * used < values.size:
                values = _copied(values.address, used, self._pool)
            ends, bits = given[slots.TO_VALUE_ENDS], given[slots.TO_VALUE_VALIDITY]
            return _binary(rows, ends, values, bits, frame[slots.NULL_VALUES])
        if name == "headers":
            return self._headers(frame, rows)
        if name == "timestamp":
            bits, nulls = given[slots.TO_TIMESTAMP_VALIDITY], int(frame[slots.NULL_TIMESTAMPS])
            return _plain(pa.timestamp("us", tz="UTC"), rows, given[slots.TO_TIMESTAMPS], bits, nulls)
        if name == "timestamp_ms":
            return _plain(pa.int64(), rows, given[slots.TO_TIMESTAMPS_MS])
        if name == "timestampType":
            return _plain(pa.int32(), rows, given[slots.TO_TYPES])
        if name == "leader_epoch":
            bits, nulls = given[slots.TO_EPOCH_VALIDITY], int(frame[slots.NULL_EPOCHS])
            return _plain(pa.int32(), rows, given[slots.TO_EPOCHS], bits, nulls)
        if name == "position":
            return _plain(pa.int64(), rows, given[slots.TO_POSITIONS])
        if name == "header_keys_raw" and self._names_read is not None:
            return self._raw_names(frame, rows, self._names_read)
        return self._constant(name, rows)

    def _read_names(self, frame: np.ndarray) -> list[bytes]:
        """Return the names of all headers as stored."""
        ends = _int32(int(frame[slots.TO_NAME_ENDS]), int(frame[slots.HEADER_COUNT]) + 1)
        names = ctypes.string_at(int(frame[slots.TO_NAMES]), int(frame[slots.NAME_BYTES]))
        return [names[start:end] for start, end in pairwise(ends)]

    def _raw_names(self, frame: np.ndarray, rows: int, names: list[bytes]) -> pa.Array[Any]:
        """Return the names of each row with a name that is not UTF-8; null for any other row."""
        foreign = {name for name in set(names) if not is_utf8(name)}
        of_rows = [names[start:end] for start, end in pairwise(_int32(int(frame[slots.TO_HEADER_ENDS]), rows + 1))]
        return pa.array([None if foreign.isdisjoint(each) else each for each in of_rows], pa.list_(pa.binary()))

    def _constant(self, name: str, rows: int) -> pa.Array[Any]:
        held = self._repeated.get(name)
        if held is None or len(held) < rows:
            held = self._repeated[name] = _repeated(name, self._place, rows)
        return held.slice(0, rows)

    def _headers(self, frame: np.ndarray, rows: int) -> pa.Array[Any]:
        count = int(frame[slots.HEADER_COUNT])
        if count == 0 and frame[slots.NULL_HEADERS] == rows:
            return pa.nulls(rows, pa.list_(HEADER_TYPE))

        def out(slot: int, nbytes: int) -> pa.Buffer:
            return _copied(int(frame[slot]), nbytes, self._pool)

        if self._names_read is None:
            ends, text = out(slots.TO_NAME_ENDS, 4 * (count + 1)), out(slots.TO_NAMES, int(frame[slots.NAME_BYTES]))
            names = pa.Array.from_buffers(pa.string(), count, [None, ends, text], 0)
        else:
            decoded = {name: decode_header_name(name) for name in set(self._names_read)}
            names = pa.array([decoded[name] for name in self._names_read], pa.string())
        values = _binary(
            count,
            out(slots.TO_HEADER_VALUE_ENDS, 4 * (count + 1)),
            out(slots.TO_HEADER_VALUES, int(frame[slots.HEADER_VALUE_BYTES])),
            out(slots.TO_HEADER_VALUE_VALIDITY, (count + 7) // 8),
            frame[slots.NULL_HEADER_VALUES],
        )
        pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADER_TYPE))
        nulls = int(frame[slots.NULL_HEADERS])
        bits = out(slots.TO_HEADER_VALIDITY, (rows + 7) // 8) if nulls else None
        ends = out(slots.TO_HEADER_ENDS, 4 * (rows + 1))
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
