"""Files of a lake to harm, for the tests of the proof."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from tests.spark.cycle import Lake

ORDERS_ROWS, PAYMENTS_ROWS = 30, 4


def table(lake: Lake, name: str = "records") -> DeltaTable:
    return DeltaTable(str(lake.path / "tables" / name))


def files_of(lake: Lake, name: str = "records", topic: str = "orders") -> list[Path]:
    """Live data files by path; of records those of one topic."""
    actions = pa.table(table(lake, name).get_add_actions(flatten=True)).to_pylist()
    chosen = [a for a in actions if name != "records" or a["partition.topic"] == topic]
    ordered = sorted(chosen, key=lambda a: a.get("min.offset", 0))
    return [lake.path / "tables" / name / a["path"] for a in ordered]


def segments_of(lake: Lake, topic: str = "orders") -> list[Path]:
    rows = [r for r in lake.rows("segments") if r["topic"] == topic and r["retired_ms"] is None]
    return [lake.path / r["path"] for r in sorted(rows, key=lambda r: r["base_offset"])]


def flip(path: Path, at: int, bit: int = 0) -> None:
    """Flip one bit; size and time stay."""
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(bytes(data))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def spans(findings: list[dict[str, Any]]) -> set[tuple[int, int]]:
    return {(each["offset"], each["end_offset"]) for each in findings}
