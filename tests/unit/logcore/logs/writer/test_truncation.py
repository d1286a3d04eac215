"""A truncated log is as if what was cut had never been written."""

import struct

from logcore.logs.writer.writer import LogWriter
from tests.unit.logcore.logs.writer.written_batches import (
    SIZE,
    T,
    aborted,
    batch,
    contents,
    data,
    entry,
    epochs,
    file,
    marker,
    snapshot,
    writer,
)


def grown() -> LogWriter:
    """Two batches of two records in each of three segments, an index entry for each but the first."""
    log = writer({"segment.bytes": str(2 * len(batch(0, count=2))), "index.interval.bytes": "0"})
    for offset in range(0, 12, 2):
        log.append(batch(offset, T + offset, count=2, leader_epoch=offset // 4), T)
    return log


def test_truncating_removes_the_whole_batch_of_its_offset_and_all_later_ones() -> None:
    log = grown()
    log.truncate(7, T)
    assert (log.base_offsets, log.log_end_offset) == ((0, 4), 7)
    made = contents(log.close(T))
    assert made[file(4, "log")] == batch(4, T + 4, count=2, leader_epoch=1)
    assert made[file(4, "index")] == b""
    assert made[file(4, "timeindex")] == struct.pack(">qi", T + 4, 1)
    assert made["leader-epoch-checkpoint"] == b"0\n2\n0 0\n1 4\n"
    assert sorted(name for name in made if name.endswith("snapshot")) == [file(4, "snapshot"), file(7, "snapshot")]


def test_truncating_takes_the_recovery_point_along_and_never_forward() -> None:
    flushed, kept = grown(), grown()
    flushed.flush(T)
    for log in (flushed, kept):
        log.truncate(9, T)
        log.checkpoint()
    assert (flushed.kill().recovery_point, kept.kill().recovery_point) == (9, 8)


def test_truncating_at_a_segments_base_leaves_it_empty() -> None:
    log = grown()
    log.truncate(8, T)
    assert log.base_offsets == (0, 4, 8)
    assert contents(log.close(T))[file(8, "log")] == b""


def test_truncating_at_or_above_the_end_cuts_the_history_alone() -> None:
    log = grown()
    log.become_leader(9, T)
    log.truncate(12, T)
    assert log.log_end_offset == 12
    assert epochs(log) == b"0\n3\n0 0\n1 4\n2 8\n"


def test_truncating_below_the_first_segment_starts_an_empty_log() -> None:
    log = writer(start_offset=10)
    log.append(batch(10), T)
    log.truncate(5, T)
    assert (log.base_offsets, log.log_start_offset, log.log_end_offset) == ((5,), 5, 5)
    assert epochs(log) == b"0\n0\n"
    log.append(batch(5), T)
    assert contents(log.close(T))[file(5, "log")] == batch(5)


def test_truncating_brings_back_the_producers_as_they_were() -> None:
    log = writer({"segment.bytes": str(2 * SIZE)})
    for each in (data(0, 7), data(1, 8), data(2, 7, 1), marker(3, 8)):
        log.append(each, T)
    log.truncate(3, T)
    log.append(marker(3, 7), T)
    made = contents(log.close(T))
    assert made[file(3, "txnindex")] == aborted(7, 0, 3, 1)
    assert made[file(4, "snapshot")] == snapshot(entry(7, 1, 2, coordinator=4), entry(8, 0, 1, 1))


def test_after_truncation_the_greatest_time_is_searched_after_the_last_entry() -> None:
    log = writer({"index.interval.bytes": str(2 * SIZE)})
    for offset, at in enumerate((T + 5, T, T, T, T + 9, T + 20)):
        log.append(batch(offset, at), T)
    log.truncate(5, T)
    assert contents(log.close(T))[file(0, "timeindex")] == struct.pack(">qiqi", T + 5, 0, T + 9, 4)
