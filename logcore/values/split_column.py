"""A column of keys or values is split by the schemas that wrote them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from logcore.values.column import FailedRow
from logcore.values.prefix import GUID_BYTES, ID_BYTES, Framing, Writer, read_header, split_row
from logcore.values.undecodable import Undecodable

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WriterRows:
    """Rows that one schema wrote. `bodies` are without prefixes; `rows`, ascending, are their places in the column."""

    writer: Writer
    rows: tuple[int, ...]
    bodies: pa.Array[Any]


@dataclass(frozen=True, slots=True)
class SplitColumn:
    """Every row that is not null is in one group or failed. Groups are in the order of their first rows."""

    groups: tuple[WriterRows, ...]
    failed: tuple[FailedRow, ...]


def split_column_plainly(
    bodies: pa.Array[Any], framing: Framing, headers: pa.Array[Any] | None = None, messages: bool = False
) -> SplitColumn:
    """Split row by row: the specification of `split_column`."""
    found: dict[Writer, list[tuple[int, bytes]]] = {}
    failed: list[FailedRow] = []
    named = [None] * len(bodies) if headers is None else headers.to_pylist()
    for row, (body, header) in enumerate(zip(bodies.to_pylist(), named, strict=True)):
        if body is None:
            continue
        try:
            prefix = split_row(body, header, framing, messages)
        except Undecodable as failure:
            failed.append(FailedRow(row, failure))
            continue
        found.setdefault(prefix.writer, []).append((row, body[prefix.start :]))
    groups = tuple(
        WriterRows(writer, tuple(row for row, _ in rows), pa.array([body for _, body in rows], bodies.type))
        for writer, rows in found.items()
    )
    return SplitColumn(groups, tuple(failed))


def split_column(
    bodies: pa.Array[Any], framing: Framing, headers: pa.Array[Any] | None = None, messages: bool = False
) -> SplitColumn:
    """Split a column with NumPy; rows of another form than the usual ones are split plainly.

    Args:
        bodies: `binary` or `large_binary`; null where there is no key or value.
        framing: Where the schemas are named.
        headers: Binary, as many rows: what `header_column` returns.
        messages: The format is Protobuf.
    """
    return _Splitter(bodies, framing, headers, messages).split()


def header_column(headers: pa.ListArray[Any], name: str) -> pa.Array[Any] | None:
    """Return the content of each record's last header of a name, as Kafka's clients choose it; None: nowhere.

    Args:
        headers: Lists of structs `key`, `value`, as in `records`.
        name: `KEY_HEADER` or `VALUE_HEADER`.
    """
    flat: Any = headers.flatten()
    keys = flat.field("key").cast(pa.binary())
    places = np.flatnonzero(np.asarray(pc.equal(keys, pa.scalar(name.encode())).fill_null(False)))
    if not len(places):
        return None
    parents = np.asarray(pc.list_parent_indices(headers))
    found: list[bytes | None] = [None] * len(headers)
    values = flat.field("value").take(places).to_pylist()
    for parent, value in zip(parents[places].tolist(), values, strict=True):
        found[parent] = value
    return pa.array(found, pa.binary())


class _Splitter:
    """`writers` numbers the schemas; `codes` has that number per row, `starts` where the value begins."""

    def __init__(self, bodies: pa.Array[Any], framing: Framing, headers: pa.Array[Any] | None, messages: bool) -> None:
        self.bodies, self.framing, self.headers, self.messages = bodies, framing, headers, messages
        self.writers: dict[Writer, int] = {}
        self.codes: _Numbers = np.full(len(bodies), -1, np.int64)
        self.starts: _Numbers = np.zeros(len(bodies), np.int64)
        self.failed: list[FailedRow] = []
        width = np.dtype(np.int64 if pa.types.is_large_binary(bodies.type) else np.int32)
        _, offsets, data = bodies.buffers()
        self.offsets: npt.NDArray[Any] = np.zeros(1, width)
        if len(bodies) and offsets is not None:
            self.offsets = np.frombuffer(
                memoryview(offsets), width, count=len(bodies) + 1, offset=bodies.offset * width.itemsize
            )
        self.data_buffer = pa.py_buffer(b"") if data is None else data
        self.data = np.frombuffer(memoryview(self.data_buffer), np.uint8)

    def split(self) -> SplitColumn:
        waiting = np.asarray(self.bodies.is_valid()).astype(bool)
        if self.framing == Framing.NONE:
            self.codes[waiting] = self._code(Writer())
        else:
            headed = np.zeros(len(waiting), bool)
            if self.headers is not None:
                headed = waiting & np.asarray(self.headers.is_valid()).astype(bool)
            usual = self._usual(waiting & ~headed)
            if self.framing == Framing.HEADER_OR_PREFIX:
                self._headed(np.flatnonzero(headed))
                usual |= headed
            self._plainly(np.flatnonzero(waiting & ~usual))
        self.failed.sort(key=lambda failed: failed.row)
        return SplitColumn(self._groups(), tuple(self.failed))

    def _usual(self, waiting: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Read all complete prefixes; for Protobuf those of the first message, which is one byte 0."""
        done = np.zeros(len(waiting), bool)
        begins, ends = self.offsets[:-1].astype(np.int64), self.offsets[1:].astype(np.int64)
        for first, length in ((0, ID_BYTES), (1, GUID_BYTES)):
            whole = length + self.messages
            rows = np.flatnonzero(waiting & (ends - begins >= whole))
            rows = rows[self.data[begins[rows]] == first]
            if self.messages:
                rows = rows[self.data[begins[rows] + length] == 0]
            if not len(rows):
                continue
            heads = self.data[begins[rows, None] + np.arange(1, length)]
            names = pa.Array.from_buffers(pa.binary(length - 1), len(rows), [None, pa.py_buffer(heads.tobytes())])
            encoded: Any = names.dictionary_encode()
            message = (0,) if self.messages else None
            numbers = np.empty(len(encoded.dictionary), np.int64)
            for at, name in enumerate(encoded.dictionary.to_pylist()):
                schema = UUID(bytes=name) if first else int.from_bytes(name, "big")
                numbers[at] = self._code(Writer(schema, message))
            places = np.asarray(encoded.indices)
            self.codes[rows] = numbers[places]
            self.starts[rows] = whole
            done[rows] = True
        return done

    def _headed(self, rows: _Numbers) -> None:
        if self.headers is None or not len(rows):
            return
        encoded = self.headers.take(rows).dictionary_encode()
        contents: list[Any] = encoded.dictionary.to_pylist()
        places: list[Any] = encoded.indices.to_pylist()
        found: list[int | Undecodable] = []
        for header in contents:
            try:
                found.append(self._code(read_header(header, self.messages)))
            except Undecodable as failure:
                found.append(failure)
        for row, at in zip(rows.tolist(), places, strict=True):
            code = found[at]
            if isinstance(code, Undecodable):
                self.failed.append(FailedRow(row, code))
            else:
                self.codes[row] = code

    def _plainly(self, rows: _Numbers) -> None:
        for row in rows.tolist():
            header = None if self.headers is None else self.headers[row].as_py()
            try:
                prefix = split_row(self.bodies[row].as_py(), header, self.framing, self.messages)
            except Undecodable as failure:
                self.failed.append(FailedRow(row, failure))
                continue
            self.codes[row] = self._code(prefix.writer)
            self.starts[row] = prefix.start

    def _code(self, writer: Writer) -> int:
        return self.writers.setdefault(writer, len(self.writers))

    def _groups(self) -> tuple[WriterRows, ...]:
        if not self.writers:
            return ()
        order = np.argsort(self.codes, kind="stable")
        parts = np.split(order, np.searchsorted(self.codes[order], np.arange(len(self.writers))))[1:]
        # Offsets of twice as many rows, prefix and value in turn: Arrow then copies each value once, in its own code.
        both: npt.NDArray[Any] = np.empty(2 * len(self.codes) + 1, self.offsets.dtype)
        both[0::2] = self.offsets
        both[1::2] = self.offsets[:-1] + self.starts
        halves = pa.Array.from_buffers(
            self.bodies.type, 2 * len(self.codes), [None, pa.array(both).buffers()[1], self.data_buffer]
        )
        groups = [
            WriterRows(writer, tuple(part.tolist()), halves.take(2 * part + 1))
            for writer, part in zip(self.writers, parts, strict=True)
            if len(part)
        ]
        return tuple(sorted(groups, key=lambda group: group.rows[0]))
