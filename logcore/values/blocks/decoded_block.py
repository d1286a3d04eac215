"""Values of a block of rows become a column by a kernel; rows that it doubts are left to the caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logcore.columns.kernels.call_frames import FULL, address_of
from logcore.columns.kernels.library import library
from logcore.columns.kernels.parsing.parsing_frames import (
    ESCAPED,
    EXTRA,
    LEVEL,
    MOST_EXTRAS,
    SCOPE_COUNT,
    SCOPE_SIZE,
    NodeKind,
    TextFrame,
    ValuesFrame,
)
from logcore.values.blocks.program import Buffers, Integers, Node, Program
from logcore.values.column import DecodedBlock
from logcore.values.limits import LARGEST_VALUE

_POWERS = np.array([float(10**power) for power in range(23)])


def decode_block(kernel: str, program: Program, arrow_type: pa.DataType, bodies: pa.Array[Any]) -> DecodedBlock:
    """Decode rows.

    Args:
        kernel: Its name.
        bodies: `binary` of less than 2 GiB.

    Raises:
        KernelsUnavailable: The kernel cannot be loaded.
    """
    rows = len(bodies)
    _, offsets, data = bodies.buffers()
    assert offsets is not None
    positions = np.frombuffer(memoryview(offsets), np.int32)[bodies.offset : bodies.offset + rows + 1].astype(np.int64)
    starts, ends = positions[:-1].copy(), positions[1:].copy()
    if bodies.null_count:
        ends[np.asarray(bodies.is_null())] = -1
    source = np.frombuffer(b"\0" if data is None or not data.size else memoryview(data), np.uint8)
    doubts, saved = np.empty(max(1, rows), np.int64), np.empty(len(program.scopes), np.int64)
    stack = np.empty(LEVEL * (len(program.nodes) + 1), np.int64)
    extras = np.empty(EXTRA * MOST_EXTRAS, np.int64)
    rooms = program.rooms(rows, int(np.diff(positions).sum()))
    while True:
        buffers = program.buffers(rooms)
        frame = ValuesFrame(
            source=address_of(source),
            starts=address_of(starts),
            ends=address_of(ends),
            rows=rows,
            longest=LARGEST_VALUE,
            nodes=address_of(buffers.nodes),
            fields=address_of(program.fields),
            names=address_of(program.names),
            scopes=address_of(buffers.scopes),
            scope_count=len(program.scopes),
            saved=address_of(saved),
            stack=address_of(stack),
            extras=address_of(extras),
            doubts=address_of(doubts),
        )
        library().call(kernel, frame)
        if frame.status != FULL:
            break
        rooms[frame.full_scope] *= 4
    counts = [rows, *buffers.scopes[SCOPE_SIZE + SCOPE_COUNT :: SCOPE_SIZE].tolist()]
    program.expect(rows, counts)
    columns = _Columns(source, buffers, counts)
    return DecodedBlock(columns.array(program.root, arrow_type), doubts[: frame.doubt_count].copy())


@dataclass(frozen=True, slots=True)
class _Columns:
    """Arrow arrays of what the kernel wrote."""

    source: npt.NDArray[np.uint8]
    buffers: Buffers
    counts: list[int]
    """Values in each scope."""

    def array(self, node: Node, kind: pa.DataType) -> pa.Array[Any]:
        count = self.counts[node.scope]
        valid = self.buffers.valid[node.number][:count]
        values, sizes = self.buffers.values[node.number][:count], self.buffers.sizes[node.number][:count]
        bitmap = None if valid.all() else _buffer(np.packbits(valid, bitorder="little"))
        if node.kind in (NodeKind.STRUCT, NodeKind.UNION):
            children = [self.array(each, kind.field(at).type) for at, each in enumerate(node.children)]
            return pa.Array.from_buffers(kind, count, [bitmap], children=children)
        if node.kind == NodeKind.LIST:
            offsets = np.zeros(count + 1, np.int32)
            np.cumsum(sizes, out=offsets[1:])
            item = self.array(node.children[0], _item_type(kind))
            return pa.Array.from_buffers(kind, count, [bitmap, _buffer(offsets)], children=[item])
        if node.kind in (NodeKind.TEXT, NodeKind.BYTES, NodeKind.FIXED):
            return self._texts(kind, values, sizes, valid, bitmap)
        if node.kind == NodeKind.SYMBOL:
            found, places = np.unique(values, return_inverse=True)
            names = [node.symbols.get(number, str(number)) for number in found.tolist()]
            numbers = pa.Array.from_buffers(pa.int32(), count, [bitmap, _buffer(places.astype(np.int32))])
            return pa.array(names, kind).take(numbers)
        return pa.Array.from_buffers(kind, count, [bitmap, _buffer(_stored(node.kind, values, sizes))])

    def _texts(
        self,
        kind: pa.DataType,
        starts: Integers,
        sizes: Integers,
        valid: npt.NDArray[np.uint8],
        bitmap: pa.Buffer | None,
    ) -> pa.Array[Any]:
        count = len(starts)
        offsets = np.zeros(count + 1, np.int32)
        there = sizes if bitmap is None else sizes[valid != 0]
        target = np.empty(max(1, int((there & ~ESCAPED).sum())), np.uint8)
        frame = TextFrame(
            source=address_of(self.source),
            starts=address_of(starts),
            sizes=address_of(sizes),
            valid=address_of(valid),
            count=count,
            offsets=address_of(offsets),
            target=address_of(target),
        )
        library().call("gather_text", frame)
        return pa.Array.from_buffers(kind, count, [bitmap, _buffer(offsets), _buffer(target)])


def _item_type(kind: pa.DataType) -> pa.DataType:
    """The type of a list's items or of a map's entries."""
    if isinstance(kind, pa.MapType):
        return pa.struct([kind.key_field, kind.item_field])
    assert isinstance(kind, pa.ListType)
    item: pa.DataType = kind.value_type
    return item


def _buffer(array: npt.NDArray[Any]) -> pa.Buffer:
    return pa.py_buffer(array)  # type: ignore[arg-type]


def _stored(kind: NodeKind, values: Integers, sizes: Integers) -> npt.NDArray[Any]:
    """The values in Arrow's layout."""
    if kind == NodeKind.NUMBER:
        # Both operands are exact, so that the one operation rounds as a parser of decimal numbers does.
        numbers = values.astype(np.float64)
        found: npt.NDArray[np.float64] = np.where(
            sizes < 0, numbers / _POWERS[np.maximum(-sizes, 0)], numbers * _POWERS[np.maximum(sizes, 0)]
        )
        return found
    if kind == NodeKind.TRUTH:
        return np.packbits(values.astype(np.uint8), bitorder="little")
    if kind == NodeKind.FLOAT32:
        return values.astype(np.uint32).view(np.float32)
    if kind == NodeKind.FLOAT64:
        return values.view(np.float64)
    if kind == NodeKind.UNSIGNED64:
        return np.column_stack((values, np.zeros_like(values)))
    if kind in (NodeKind.DECIMAL, NodeKind.FIXED_DECIMAL):
        return np.column_stack((values, sizes))
    return values.astype(np.int32) if kind in (NodeKind.DATE, NodeKind.INT32) else values
