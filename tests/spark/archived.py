"""A lake's archive as a test looks at it: what is live, and what its bytes hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from logcore.records.record import read_records
from logcore.segments.scanning.scan import ScannedBatch, SegmentScan
from tests import handmade
from tests.broker_directory import Partition
from tests.spark.cycle import Lake

Keyed = tuple[bytes | None, bytes | None]


def live(lake: Lake, topic: str) -> list[dict[str, Any]]:
    """Live rows of ``segments`` of partition 0, in offset order."""
    rows = [r for r in lake.rows("segments") if r["topic"] == topic and r["retired_ms"] is None]
    return sorted(rows, key=lambda row: row["base_offset"])


def spans(lake: Lake, topic: str) -> list[tuple[int, int]]:
    """Base and next offset of the live segments."""
    return [(row["base_offset"], row["next_offset"]) for row in live(lake, topic)]


def archived_records(lake: Lake, topic: str) -> dict[int, Keyed]:
    """Key and value by offset in the live segments; an offset that is there twice fails here."""
    found: dict[int, Keyed] = {}
    for row in live(lake, topic):
        data = (lake.path / row["path"]).read_bytes()
        for item in SegmentScan(data, base_offset=row["base_offset"], sealed=True):
            assert isinstance(item, ScannedBatch)
            for record in read_records(data, item.position, item.header):
                assert record.offset not in found
                found[record.offset] = (record.key, record.value)
    return found


def ledger(lake: Lake, topic: str) -> list[tuple[int, int, str, int, int, str]]:
    """(start, end, state, records, gaps, archived) in offset order."""
    columns = ("start_offset", "end_offset", "state", "records", "gaps", "archived")
    return sorted(tuple(row[c] for c in columns) for row in lake.rows("offset_ledger") if row["topic"] == topic)


_OF_THE_RUN = {"run_id", "archived_by"}


def tables(lake: Lake, *names: str) -> dict[str, list[str]]:
    """Tables as comparable text, without the run that wrote a row."""
    return {
        name: sorted(
            repr(sorted((k, v) for k, v in row.items() if k not in ("run_id", "archived_by")))
            for row in lake.rows(name)
        )
        for name in names
    }


def files(root: Path) -> dict[str, bytes]:
    """Every file below a folder, by relative path."""
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def append_segment(partition: Partition, rows: list[Keyed], timestamp: int, per_batch: int = 5) -> None:
    """A new segment of these rows, all of one timestamp."""
    partition.roll()
    for start in range(0, len(rows), per_batch):
        some = rows[start : start + per_batch]
        partition.write(handmade.simple_batch(partition.next_offset, some, base_timestamp=timestamp, leader_epoch=0))
        for row in some:
            partition.rows[partition.next_offset] = row
            partition.next_offset += 1
