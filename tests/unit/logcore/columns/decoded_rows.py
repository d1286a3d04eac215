"""What an engine decodes from a segment of bytes, for the tests of engines."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import crc32c
import pyarrow as pa
import pytest

from logcore.columns.engines import Engine, available, decode_segment
from logcore.columns.wanted import EVERYTHING, Place
from logcore.segments.scanning.scan import Stretch
from tests import handmade

PLACE = Place("orders", 3, "abc.0", "seg", position_base=1 << 40)

every_engine = pytest.mark.parametrize("engine", available())
every_fast_engine = pytest.mark.parametrize("engine", [each for each in available() if each is not Engine.REFERENCE])


def decoded(data: bytes, engine: Engine = Engine.KERNELS, **how: Any) -> tuple[pa.Table, list[Stretch], int]:
    """Decode a segment. Returns rows, stretches, and the number of steps that the reference took for the engine."""
    how = {"place": PLACE, "base_offset": 0, "sealed": True} | how
    walk = decode_segment(data, engine=engine, **how)
    items = list(walk)
    rows = [item for item in items if isinstance(item, pa.RecordBatch)]
    assert all(each.num_rows for each in rows)
    table = pa.Table.from_batches(rows, schema=how.get("wanted", EVERYTHING).schema)
    table.validate(full=True)
    return table, [item for item in items if isinstance(item, Stretch)], walk.careful_steps


def rows_of(data: bytes, engine: Engine, **how: Any) -> list[dict[str, Any]]:
    """Rows of a segment in which nothing is damaged."""
    table, stretches, _ = decoded(data, engine, **how)
    assert stretches == []
    return table.to_pylist()


def offsets_of(data: bytes, engine: Engine, **how: Any) -> list[int]:
    return [row["offset"] for row in rows_of(data, engine, **how)]


def summed(batch: bytes) -> bytes:
    """The batch with its checksum, by a library: handmade's own takes a byte at a time."""
    if batch[16] == 2:
        return handmade.patch(batch, 17, struct.pack(">I", crc32c.crc32c(batch[21:])))
    return handmade.patch(batch, 12, struct.pack(">I", zlib.crc32(batch[16:])))
