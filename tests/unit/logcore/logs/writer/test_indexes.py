"""Entries of the indexes that a writer leaves are packed by hand."""

import struct

from logcore.logs.model.broker_line import BrokerLine
from tests import handmade
from tests.unit.logcore.logs.writer.written_batches import SIZE, T, batch, contents, file, writer


def test_an_entry_comes_once_more_than_the_interval_was_written_and_names_the_last_offset() -> None:
    log = writer({"index.interval.bytes": str(SIZE)})
    for offset in range(0, 10, 2):
        log.append(batch(offset, T - offset if offset != 4 else T + 1, count=2), T)
    size = len(batch(0, count=2))
    made = contents(log.close(T))
    assert made[file(0, "index")] == b"".join(struct.pack(">ii", 2 * n + 1, n * size) for n in (1, 2, 3, 4))
    assert made[file(0, "timeindex")] == struct.pack(">qi", T, 1) + struct.pack(">qi", T + 1, 5)


def test_every_batch_of_a_call_is_looked_at() -> None:
    log = writer({"index.interval.bytes": str(2 * SIZE)})
    log.append([batch(offset, T + offset) for offset in range(8)], T)
    assert contents(log.close(T))[file(0, "index")] == struct.pack(">iiii", 3, 3 * SIZE, 6, 6 * SIZE)


def test_closing_adds_the_greatest_time_unless_it_is_there() -> None:
    log = writer({"segment.bytes": str(2 * SIZE)})
    for offset, at in enumerate((T + 9, T, T)):
        log.append(batch(offset, at), T)
    made = contents(log.close(T))
    assert made[file(0, "timeindex")] == struct.pack(">qi", T + 9, 0)
    assert made[file(2, "timeindex")] == struct.pack(">qi", T, 0)
    assert made[file(0, "index")] == b""


def test_of_batches_of_the_same_time_the_first_is_in_the_time_index() -> None:
    log = writer()
    for offset, at in enumerate((T - 1, T, T, T - 1)):
        log.append(batch(offset, at), T)
    assert contents(log.close(T))[file(0, "timeindex")] == struct.pack(">qi", T, 1)


def test_records_without_time_leave_an_empty_time_index() -> None:
    log = writer({"index.interval.bytes": "0"})
    for offset in range(3):
        log.append(handmade.message_v0(offset, b"k", b"v"), T)
    made = contents(log.close(T))
    assert made[file(0, "timeindex")] == b""
    assert len(made[file(0, "index")]) == 16


def test_a_killed_broker_leaves_the_active_indexes_at_their_whole_size() -> None:
    log = writer({"index.interval.bytes": "0", "segment.index.bytes": "100", "segment.bytes": str(3 * SIZE)})
    for offset in range(5):
        log.append(batch(offset, T + offset), T)
    made = contents(log.kill())
    assert made[file(0, "timeindex")] == struct.pack(">qiqi", T + 1, 1, T + 2, 2)
    assert made[file(3, "index")] == struct.pack(">ii", 1, SIZE) + bytes(96 - 8)
    assert made[file(3, "timeindex")] == struct.pack(">qi", T + 4, 1) + bytes(96 - 12)
    assert [name for name in made if name.endswith("snapshot")] == [file(3, "snapshot")]


def test_a_segment_without_writes_has_the_index_files_that_a_broker_creates() -> None:
    def names(line: BrokerLine, *, is_rolled: bool) -> list[str]:
        log = writer(line=line)
        if is_rolled:
            log.append(batch(0), T)
            log.roll(T)
        return sorted(
            name.partition(".")[2] for name in log.close(T).files if name.startswith(f"{int(is_rolled):020d}")
        )

    both = ["index", "log", "timeindex"]
    assert names(BrokerLine.V3_9, is_rolled=False) == both
    assert names(BrokerLine.V4_0, is_rolled=True) == ["log", "snapshot"]
    assert names(BrokerLine.V4_4, is_rolled=True) == ["index", "log", "snapshot", "timeindex"]


def test_a_restart_resets_the_byte_count_of_the_next_index_entry() -> None:
    def entries(*, restarts: bool) -> bytes:
        log = writer({"index.interval.bytes": str(2 * SIZE)})
        for offset in range(5):
            log.append(batch(offset, T + offset), T)
            if restarts and offset == 1:
                log.restart(T)
        return contents(log.close(T))[file(0, "index")]

    assert entries(restarts=False) == struct.pack(">ii", 3, 3 * SIZE)
    assert entries(restarts=True) == b""
