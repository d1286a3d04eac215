"""What the benchmark's many small segments and batches hold is what it counts."""

from __future__ import annotations

from pathlib import Path

from logcore.segments.scanning.scan import ScannedBatch, SegmentScan
from tests.bench import many


def test_many_segments_are_logs_of_up_to_a_hundred(tmp_path: Path):
    assert many.segments(tmp_path, 250) == 1250
    counts = {path.name: len(list(path.glob("*.log"))) for path in tmp_path.glob("many-*-0")}
    assert counts == {"many-0-0": 100, "many-1-0": 100, "many-2-0": 50}
    entries = (tmp_path / "replication-offset-checkpoint").read_text().splitlines()
    assert set(entries[2:]) == {"many-0 0 500", "many-1 0 500", "many-2 0 250"}
    last = tmp_path / "many-1-0" / f"{495:020d}.log"
    (item,) = SegmentScan(last.read_bytes(), base_offset=495, sealed=True)
    assert isinstance(item, ScannedBatch)
    assert (item.header.base_offset, item.header.last_offset) == (495, 499)


def test_every_tiny_batch_has_an_offset_of_its_own_and_a_right_checksum(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(many, "_AT_ONCE", 7)
    assert many.batches(tmp_path, 30) == 30
    items = list(SegmentScan((tmp_path / "tiny-0" / f"{0:020d}.log").read_bytes(), base_offset=0, sealed=True))
    assert all(isinstance(item, ScannedBatch) for item in items)
    assert [item.header.base_offset for item in items] == list(range(30))
    assert {item.header.record_count for item in items} == {1}


def test_one_partition_in_so_many_gets_a_segment(tmp_path: Path):
    assert many.partitions(tmp_path, 25, 3, 10) == 750
    assert many.add_segments(tmp_path, 25, 10) == 30
    grown = sorted(path.parent.name for path in tmp_path.glob(f"*/{30:020d}.log"))
    assert grown == ["topic0-0", "topic0-10", "topic0-20"]
    entries = (tmp_path / "replication-offset-checkpoint").read_text().splitlines()
    assert {"topic0 0 40", "topic0 1 30", "topic0 20 40"} < set(entries)
