"""Copying one segment: stat, read, stat; a source that changes is tried once more and then reported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.ingest import segment_copy
from spark_jobs.ingest.segment_copy import CopyTask, copy_segment, nothing_readable
from tests import handmade
from tests.unit.spark_jobs.ingest.copy_tasks import copy_task

pytestmark = pytest.mark.slow


def _batches(*base_offsets: int) -> bytes:
    rows = [(b"k", b"v")] * 5
    return b"".join(handmade.simple_batch(base, rows, base_timestamp=base + 1000) for base in base_offsets)


@pytest.fixture
def task(tmp_path: Path) -> CopyTask:
    return copy_task(tmp_path, _batches(0, 5, 10), 15)


def _archived(task: CopyTask) -> list[Path]:
    return [path for path in Path(task.lake).rglob("*") if path.is_file()]


def test_a_copy_is_the_sources_bytes_named_by_base_offset_and_id_with_its_time_of_change(task):
    segment = copy_segment(task).segment
    copy = Path(task.lake, segment.path)
    assert copy.read_bytes() == Path(task.source).read_bytes()
    assert copy.name == f"00000000000000000000.{segment.segment_id}.log"
    assert copy.stat().st_mtime_ns == 1_700_000_000_000 * 1_000_000
    assert (segment.base_offset, segment.next_offset, segment.max_timestamp) == (0, 15, 1010)
    assert _archived(task) == [copy]


def test_a_copy_made_again_takes_the_same_name(task):
    first, second = copy_segment(task).segment, copy_segment(task).segment
    assert first == second
    assert len(_archived(task)) == 1


def test_a_source_that_changes_once_under_the_reader_is_read_again(task, monkeypatch):
    copy_range, calls = segment_copy.copy_range, []

    def changing(*args, **kwargs):
        calls.append(args)
        if len(calls) == 1:
            raise segment_copy.SourceChanged("it was written to while it was read", file=task.source)
        return copy_range(*args, **kwargs)

    monkeypatch.setattr(segment_copy, "copy_range", changing)
    result = copy_segment(task)
    assert len(calls) == 2
    assert (result.failed, result.findings) == (False, ())
    assert result.segment.next_offset == 15


def test_a_source_that_keeps_changing_is_reported_and_leaves_nothing(task, monkeypatch):
    def changing(*_, **__):
        raise segment_copy.SourceChanged("it was written to while it was read", file=task.source)

    monkeypatch.setattr(segment_copy, "copy_range", changing)
    result = copy_segment(task)
    assert (result.failed, result.segment) == (True, None)
    assert [finding.rule for finding in result.findings] == ["source-changed"]
    assert _archived(task) == []


def test_a_full_disk_is_the_archives_fault_and_leaves_nothing(task, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "archive")

    monkeypatch.setattr(segment_copy.os, "replace", full)
    result = copy_segment(task)
    assert [finding.rule for finding in result.findings] == ["archive-not-written"]
    assert "No space left" in result.findings[0].message
    assert _archived(task) == []


@pytest.mark.parametrize("left", range(1, len(_batches(15))))
def test_of_a_segment_still_written_to_only_whole_batches_are_taken(task, left):
    active = replace(task, sealed=False, next_base_offset=None)
    whole = Path(task.source).read_bytes()
    Path(task.source).write_bytes(whole + _batches(15)[:left])
    segment = copy_segment(active).segment
    assert segment.size == len(whole)
    waiting = replace(active, start=len(whole), first_offset=15)
    assert [finding.rule for finding in nothing_readable(waiting) or ()] in (["torn-tail"], ["zero-padding"])
    Path(task.source).write_bytes(whole + _batches(15))
    assert nothing_readable(waiting) is None
    assert copy_segment(waiting).segment.next_offset == 20
