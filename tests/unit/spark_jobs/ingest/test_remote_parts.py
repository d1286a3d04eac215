"""Which bytes of remote segments fill offsets that were remote, and what is said of offsets that stay there."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.storage.discovery import discover
from spark_jobs.ingest.remote_ranges import remote_parts
from spark_jobs.lake.segments.archive import LogRow
from tests.broker_directory import LogDirectory


@pytest.fixture
def source(tmp_path: Path) -> SourceLog:
    """Two segments: offsets 0 to 19 in batches of five, and 20 to 24."""
    directory = LogDirectory(tmp_path / "logs")
    orders = directory.partition("orders-0")
    orders.append(20)
    orders.roll()
    orders.append(5)
    directory.high_watermarks(orders_0=25)
    (log,) = discover([str(directory.path)]).logs
    return log


def row(*remote: tuple[int, int]) -> LogRow:
    gaps = json.dumps([[start, end, "remote-tier"] for start, end in remote])
    known: dict[str, Any] = dict.fromkeys(LogRow.__dataclass_fields__)
    return LogRow(**known | {"topic": "orders", "partition": 0, "next_offset": 25, "gaps": gaps})


def segment(start: int, end: int) -> Any:
    return SimpleNamespace(base_offset=start, next_offset=end)


def test_whole_batches_between_archived_offsets_are_a_part(source: SourceLog) -> None:
    parts, findings = remote_parts(source, row((5, 15)), [segment(0, 5), segment(15, 25)])
    assert [(part.base_offset, part.next_offset) for part in parts] == [(5, 15)]
    assert findings == ()


@pytest.mark.parametrize(
    ("start", "end", "batch"), [(7, 15, "[5, 10)"), (5, 12, "[10, 15)")], ids=["at-the-start", "at-the-end"]
)
def test_a_batch_that_crosses_archived_offsets_stays_and_a_finding_names_it(
    source: SourceLog, start: int, end: int, batch: str
) -> None:
    parts, findings = remote_parts(source, row((start, end)), [segment(0, start), segment(end, 25)])
    assert parts == ()
    (said,) = findings
    assert (said.rule, said.start_offset, said.end_offset) == ("remote-range-left-out", start, end)
    assert f"the batch of offsets {batch} has archived offsets too" in said.message
    assert said.file == source.segments[0].path


def test_a_range_that_a_compacted_segment_spans_stays_and_a_finding_names_it(source: SourceLog) -> None:
    held = [segment(0, 5), segment(15, 25)]
    parts, findings = remote_parts(source, row((5, 15)), held, [segment(0, 20)])
    assert parts == ()
    (said,) = findings
    assert (said.rule, said.start_offset, said.end_offset) == ("remote-range-left-out", 5, 15)
    assert "the compacted segment 0 to 19 of the lake spans them" in said.message
    assert remote_parts(source, row((5, 15)), held, [segment(15, 25)]) == remote_parts(source, row((5, 15)), held)


def test_a_segment_of_which_a_part_cannot_be_read_is_named(source: SourceLog) -> None:
    file: SegmentFile = source.segments[0]
    Path(file.path).unlink()
    parts, findings = remote_parts(source, row((5, 15)), [segment(0, 5), segment(15, 25)])
    assert parts == ()
    assert [(said.rule, said.file) for said in findings] == [("remote-range-left-out", file.path)]
