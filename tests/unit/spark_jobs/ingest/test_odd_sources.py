"""Sources with room that a broker reserved, and sources whose disk fails: what the archive takes of them."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.ingest import segment_copy
from spark_jobs.ingest.segment_copy import CopyTask, copy_segment
from spark_jobs.lake.segments.archive import Segment
from tests import handmade
from tests.unit.spark_jobs.ingest.copy_tasks import copy_task

TEBIBYTE = 1 << 40
MEBIBYTE = 1 << 20
SECTOR = 4096
BATCHES = [handmade.simple_batch(offset, [(b"k", b"v" * 20)]) for offset in range(600)]
STARTS = [sum(map(len, BATCHES[:number])) for number in range(601)]
CONTENT = b"".join(BATCHES)

Break = Callable[..., None]


@pytest.fixture
def task(tmp_path: Path) -> CopyTask:
    return copy_task(tmp_path, CONTENT, 600)


@pytest.fixture
def active(task: CopyTask) -> CopyTask:
    return replace(task, sealed=False, next_base_offset=None)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes on disk of copies, as they are before they are cut to what is taken."""
    sizes: list[int] = []
    whole = os.truncate

    def truncate(path: str, size: int) -> None:
        sizes.append(os.stat(path).st_blocks * 512)
        whole(path, size)

    monkeypatch.setattr(segment_copy.os, "truncate", truncate)
    return sizes


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Break:
    """Lets reads of some bytes of a file fail as a disk's do; `times`: no more than so often."""
    whole = os.pread

    def break_sectors(path: str, sectors: range, times: int = 1 << 40) -> None:
        start, end, inode = sectors.start * SECTOR, sectors.stop * SECTOR, os.stat(path).st_ino
        left = [times]

        def pread(fd: int, size: int, position: int) -> bytes:
            is_hit = position < end and position + size > start and left[0] > 0
            if os.fstat(fd).st_ino != inode or not is_hit:
                return whole(fd, size, position)
            if position < start:
                return whole(fd, start - position, position)
            left[0] -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(os, "pread", pread)

    return break_sectors


def archived(task: CopyTask, segment: Segment) -> bytes:
    return Path(task.lake, segment.path).read_bytes()


def test_the_room_reserved_in_an_active_segment_costs_neither_time_nor_disk(active: CopyTask, taken: list[int]) -> None:
    os.truncate(active.source, TEBIBYTE)
    taken.clear()
    begun = time.process_time()
    result = copy_segment(active)
    assert time.process_time() - begun < 5
    assert (result.failed, result.segment.size) == (False, len(CONTENT))
    assert [size for size in taken if size > 2 * len(CONTENT)] == []
    assert archived(active, result.segment) == CONTENT
    (finding,) = result.findings
    assert finding.rule == "zero-padding"
    assert (finding.position, finding.nbytes) == (len(CONTENT), TEBIBYTE - len(CONTENT))


def test_zeros_that_a_broker_wrote_are_not_written_to_the_archive(active: CopyTask, taken: list[int]) -> None:
    with open(active.source, "ab") as file:
        file.write(bytes(64 * MEBIBYTE))
    result = copy_segment(active)
    assert [size for size in taken if size > MEBIBYTE] == []
    assert archived(active, result.segment) == CONTENT


def test_zeros_inside_of_a_sealed_segment_are_archived_as_they_are(task: CopyTask, taken: list[int]) -> None:
    damaged = CONTENT[: STARTS[300]] + bytes(3 * MEBIBYTE + 5) + CONTENT[STARTS[300] :]
    Path(task.source).write_bytes(damaged)
    result = copy_segment(task)
    assert archived(task, result.segment) == damaged
    assert result.segment.size == len(damaged)
    assert [size for size in taken if size > MEBIBYTE] == []


@pytest.mark.parametrize("zeros", [0, 1, 1000])
def test_a_last_batch_that_ends_in_zeros_is_taken_whole(active: CopyTask, zeros: int) -> None:
    last = handmade.simple_batch(600, [(b"k", bytes(100_000))])
    Path(active.source).write_bytes(CONTENT + last + bytes(zeros))
    result = copy_segment(active)
    assert (result.segment.next_offset, result.segment.size) == (601, len(CONTENT) + len(last))
    assert archived(active, result.segment) == CONTENT + last


@pytest.mark.parametrize("sectors", [range(3, 4), range(1), range(5, 8)], ids=str)
@pytest.mark.parametrize("sealed", [True, False])
def test_what_a_disk_fails_to_read_is_stated_and_the_batches_around_it_are_taken(
    task: CopyTask, broken: Break, sectors: range, sealed: bool
) -> None:
    task = replace(task, sealed=sealed, next_base_offset=600 if sealed else None)
    broken(task.source, sectors)
    result = copy_segment(task)
    start, end = sectors.start * SECTOR, sectors.stop * SECTOR
    assert not result.failed
    assert [(f.rule, f.severity, f.position, f.nbytes) for f in result.findings] == [
        ("unreadable", "error", start, end - start)
    ]
    assert archived(task, result.segment) == CONTENT[:start] + bytes(end - start) + CONTENT[end:]
    assert (result.segment.next_offset, result.segment.size) == (600, len(CONTENT))


def test_bytes_that_cannot_be_read_after_the_last_batch_are_left_for_a_later_run(
    active: CopyTask, broken: Break
) -> None:
    whole = STARTS[400]
    broken(active.source, range(whole // SECTOR + 1, len(CONTENT) // SECTOR + 1))
    result = copy_segment(active)
    assert [f.rule for f in result.findings] == ["unreadable", "torn-tail"]
    assert "not archived" in result.findings[0].message
    assert result.segment.next_offset < 600
    assert archived(active, result.segment) == CONTENT[: result.segment.size]


def test_a_disk_that_fails_once_changes_nothing(task: CopyTask, broken: Break) -> None:
    broken(task.source, range(3, 4), times=1)
    result = copy_segment(task)
    assert (result.failed, result.findings) == (False, ())
    assert archived(task, result.segment) == CONTENT


def test_bytes_that_take_the_place_of_others_are_whole_or_not_taken(task: CopyTask, broken: Break) -> None:
    broken(task.source, range(3, 4))
    result = copy_segment(replace(task, end=len(CONTENT)))
    assert (result.failed, result.segment) == (True, None)
    assert [(f.rule, f.position) for f in result.findings] == [("unreadable", 3 * SECTOR)]


def test_a_segment_is_not_registered_at_a_source_that_cannot_be_read(
    task: CopyTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int, buffers: list[memoryview], position: int) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "preadv", refuse)
    result = copy_segment(replace(task, in_place=True))
    assert (result.failed, result.segment) == (True, None)
    assert [(f.rule, f.position) for f in result.findings] == [("unreadable", 0)]
