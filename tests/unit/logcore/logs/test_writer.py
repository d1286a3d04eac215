"""Batches are packed by hand, and so is what is expected of indexes and snapshots. Sizes: batches of one record."""

import struct

import pytest

from logcore.errors import CorruptRecordError
from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.model.partition_directory import PartitionDirectory
from logcore.logs.model.topic_config import TopicConfig, topic_config
from logcore.logs.writer.open_segment import RollReason
from logcore.logs.writer.writer import LogWriter, Roll
from logcore.segments.filenames import TopicPartition
from tests import handmade

T = 1_700_000_000_000
MAX_RELATIVE = 2**31 - 1
ORDERS = TopicPartition("orders", 0)


def batch(offset: int, timestamp: int = T, count: int = 1, **fields: int) -> bytes:
    return handmade.batch(
        [handmade.record(n, b"k", b"v") for n in range(count)],
        base_offset=offset,
        base_timestamp=timestamp,
        last_offset_delta=count - 1,
        **({"leader_epoch": 0} | fields),
    )


SIZE = len(batch(0))


def writer(values: dict[str, str] | None = None, *, line: BrokerLine = BrokerLine.V4_4, **given) -> LogWriter:
    return LogWriter(ORDERS, topic_config(values or {}), line, **({"as_of_ms": T} | given))


def contents(directory: PartitionDirectory) -> dict[str, bytes]:
    return {name: bytes(file.content) for name, file in directory.files.items()}


def file(base: int, suffix: str) -> str:
    return f"{base:020d}.{suffix}"


def rolls(log: LogWriter) -> list[tuple[int, RollReason]]:
    return [(roll.base_offset, roll.reason) for roll in log.rolls]


# ----------------------------------------------------------------------------------------------- when a segment is full


def test_a_segment_takes_what_just_fits_and_no_byte_more() -> None:
    exact, short = writer({"segment.bytes": str(2 * SIZE)}), writer({"segment.bytes": str(2 * SIZE - 1)})
    for log in (exact, short):
        for offset in range(3):
            log.append(batch(offset), T)
    assert exact.base_offsets == (0, 2)
    assert short.base_offsets == (0, 1, 2)
    assert short.rolls == [Roll(1, RollReason.SIZE), Roll(2, RollReason.SIZE)]


def test_a_call_of_several_batches_is_never_split() -> None:
    log = writer({"segment.bytes": str(3 * SIZE)})
    log.append(batch(0), T)
    log.append([batch(1), batch(2), batch(3)], T)
    assert log.base_offsets == (0, 1)


def test_more_than_segment_bytes_at_once_is_refused() -> None:
    with pytest.raises(ValueError, match=r"segment\.bytes"):
        writer({"segment.bytes": str(SIZE)}).append([batch(0), batch(1)], T)


@pytest.mark.parametrize(("later", "is_rolled"), [(100, False), (101, True), (-10_000, False)])
def test_time_goes_by_the_records_own_clock(later, is_rolled) -> None:
    log = writer({"segment.ms": "100"})
    log.append(batch(0, T), T)
    log.append(batch(1, T + later), T + 10**9)
    assert rolls(log) == ([(1, RollReason.TIME)] if is_rolled else [])


def test_the_first_batchs_time_counts_and_of_a_call_the_greatest() -> None:
    log = writer({"segment.ms": "100"})
    log.append(batch(0, T), T)
    log.append(batch(1, T + 90), T)
    log.append([batch(2, T + 101), batch(3, T)], T)
    assert rolls(log) == [(2, RollReason.TIME)]


@pytest.mark.parametrize(("clock", "is_rolled"), [(T + 100, False), (T + 101, True)])
def test_where_the_first_batch_has_no_time_the_brokers_clock_counts(clock, is_rolled) -> None:
    log = writer({"segment.ms": "100"})
    log.append(handmade.message_v0(0, b"k", b"v"), T)
    log.append(handmade.message_v0(1, b"k", b"v"), clock)
    assert bool(log.rolls) == is_rolled


def test_an_empty_segment_does_not_age() -> None:
    log = writer({"segment.ms": "100"})
    log.append(batch(0, T), T + 10**9)
    assert log.rolls == []


def test_jitter_is_drawn_for_each_segment_and_rolls_it_earlier() -> None:
    drawn = iter([0, 40, 0])
    log = writer({"segment.ms": "100"}, jitter=lambda: next(drawn))
    for offset, at in enumerate((T, T + 101, T + 161, T + 162)):
        log.append(batch(offset, at), T)
    assert log.base_offsets == (0, 1, 3)


@pytest.mark.parametrize(
    ("policy", "lag", "is_rolled"),
    [("delete", 10, False), ("compact", 10, True), ("compact,delete", 10, True), ("compact", 200, False)],
)
def test_a_compacted_topic_rolls_in_time_for_its_compaction(policy, lag, is_rolled) -> None:
    log = writer({"segment.ms": "100", "cleanup.policy": policy, "max.compaction.lag.ms": str(lag)})
    log.append(batch(0, T), T)
    log.append(batch(1, T + 50), T)
    assert bool(log.rolls) == is_rolled


def test_a_full_offset_index_and_a_time_index_with_one_place_left_begin_a_segment() -> None:
    room = {"segment.index.bytes": "39", "index.interval.bytes": "0"}  # 4 and 3 entries
    rising = writer(room)
    for offset in range(6):
        rising.append(batch(offset, T + offset), T)
    assert rolls(rising) == [(3, RollReason.TIME_INDEX)]
    falling = writer(room)
    for offset in range(7):
        falling.append(batch(offset, T), T)
    assert rolls(falling) == [(5, RollReason.OFFSET_INDEX)]


@pytest.mark.parametrize(("offset", "is_rolled"), [(MAX_RELATIVE, False), (MAX_RELATIVE + 1, True)])
def test_an_offset_that_an_index_cannot_hold_begins_a_segment(offset, is_rolled) -> None:
    log = writer()
    log.append(batch(0), T)
    log.append(batch(offset), T)
    assert rolls(log) == ([(offset, RollReason.OFFSET_SPAN)] if is_rolled else [])


def test_a_new_segment_is_named_by_the_first_offset_of_the_call_even_after_a_gap() -> None:
    log = writer({"segment.bytes": str(SIZE)})
    log.append(batch(0), T)
    log.append(batch(7), T)
    assert log.base_offsets == (0, 7)


def test_of_an_old_format_the_log_end_names_the_new_segment() -> None:
    message = handmade.message_v1(9, T, b"k", b"v")
    log = writer({"segment.bytes": str(len(message))})
    log.append(handmade.message_v1(3, T, b"k", b"v"), T)
    log.append(message, T)
    assert log.base_offsets == (0, 4)


def test_an_empty_segment_that_is_rolled_at_its_own_base_is_replaced() -> None:
    log = writer()
    assert log.roll(T + 5) == 0
    assert log.base_offsets == (0,)
    log.append(batch(0), T)
    assert log.roll(T + 6) == 1
    assert log.roll(T + 7) == 1
    assert log.base_offsets == (0, 1)


# ------------------------------------------------------------------------------------------------------------- indexes


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


# ------------------------------------------------------------------------------------------- producers and transactions


def data(offset: int, producer: int, sequence: int = 0, at: int = T) -> bytes:
    fields = {"attributes": handmade.TRANSACTIONAL, "producer_id": producer, "producer_epoch": 0}
    return batch(offset, at, base_sequence=sequence, **fields)


def marker(offset: int, producer: int, kind: int = handmade.ABORT) -> bytes:
    return handmade.marker(offset, kind, producer_id=producer, base_timestamp=T, coordinator_epoch=4, leader_epoch=0)


def aborted(producer: int, first: int, last: int, stable: int) -> bytes:
    return struct.pack(">hqqqq", 0, producer, first, last, stable)


def test_aborts_are_indexed_where_their_marker_is_with_the_offset_that_is_stable_then() -> None:
    log = writer({"segment.bytes": str(3 * SIZE)})
    for each in (data(0, 7), data(1, 8), data(2, 9), marker(3, 8), marker(4, 7), marker(5, 9, handmade.COMMIT)):
        log.append(each, T)
    made = contents(log.close(T))
    assert log.base_offsets == (0, 3, 5)
    assert made[file(3, "txnindex")] == aborted(8, 1, 3, 0) + aborted(7, 0, 4, 2)
    assert [name for name in made if name.endswith("txnindex")] == [file(3, "txnindex")]


def test_an_abort_of_nothing_is_not_indexed() -> None:
    log = writer()
    log.append(marker(0, 7), T)
    assert [name for name in log.close(T).files if name.endswith("txnindex")] == []


def test_a_call_knows_all_the_transactions_it_begins_before_it_ends_one() -> None:
    """As a follower that fetches them at once: another's later transaction is open, the own next one is not looked at,
    and what the call ends in front stays open until its turn."""
    log = writer()
    log.append(data(0, 7), T)
    log.append([data(1, 8), marker(2, 7), marker(3, 8), batch(4), data(5, 7), data(6, 9)], T)
    assert contents(log.close(T))[file(0, "txnindex")] == aborted(7, 0, 2, 1) + aborted(8, 1, 3, 5)


def entry(producer: int, sequence: int, last: int, opened: int = -1, coordinator: int = -1) -> bytes:
    return struct.pack(">qhiqiqiq", producer, 0, sequence, last, 0, T, coordinator, opened)


def snapshot(*entries: bytes) -> bytes:
    body = struct.pack(">i", len(entries)) + b"".join(entries)
    return struct.pack(">hI", 1, handmade.crc32c(body)) + body


def test_a_snapshot_is_taken_at_every_roll_and_at_the_end() -> None:
    log = writer({"segment.bytes": str(2 * SIZE)})
    for each in (data(0, 7), data(1, 23), data(2, 7, 1), marker(3, 7, handmade.COMMIT)):
        log.append(each, T)
    made = contents(log.close(T))
    assert made[file(2, "snapshot")] == snapshot(entry(7, 0, 0, 0), entry(23, 0, 1, 1))
    assert made[file(4, "snapshot")] == snapshot(entry(7, 1, 2, coordinator=4), entry(23, 0, 1, 1))
    assert sorted(name for name in made if name.endswith("snapshot")) == [
        file(2, "snapshot"),
        file(3, "snapshot"),
        file(4, "snapshot"),
    ]


def test_entries_of_a_snapshot_lie_in_the_order_of_a_java_map() -> None:
    log = writer()
    for offset, producer in enumerate((1000, 7, 8, 4_000_000_000, 23, 16, 17, 5000)):
        log.append(batch(offset, producer_id=producer, producer_epoch=0, base_sequence=0), T)
    content = contents(log.close(T))[file(8, "snapshot")]
    written = [struct.unpack_from(">q", content, 10 + 46 * n)[0] for n in range(8)]
    assert written == [16, 17, 7, 23, 1000, 8, 5000, 4_000_000_000]  # what a broker's own classes wrote


def test_silent_producers_are_forgotten_when_they_expire_and_when_a_snapshot_is_loaded() -> None:
    config = {"producer.id.expiration.ms": "100"}
    log = writer(config)
    log.append(batch(0, producer_id=7, producer_epoch=0, base_sequence=0), T)
    log.append(data(1, 8), T)
    log.expire_producers(T + 99)
    assert contents(log.close(T))[file(2, "snapshot")] == snapshot(entry(7, 0, 0), entry(8, 0, 1, 1))
    log.restart(T + 100)
    log.append(batch(2), T)
    assert contents(log.close(T))[file(3, "snapshot")] == snapshot(entry(8, 0, 1, 1))


def test_a_log_without_a_record_has_no_snapshot() -> None:
    assert sorted(contents(writer().close(T))) == [
        file(0, "index"),
        file(0, "log"),
        file(0, "timeindex"),
        "leader-epoch-checkpoint",
    ]


# ------------------------------------------------------------------------------------------------------ leaders, state


def epochs(log: LogWriter) -> bytes:
    return contents(log.kill())["leader-epoch-checkpoint"]


def test_the_history_of_leaders_follows_batches_and_elections() -> None:
    log = writer()
    assert epochs(log) == b""
    log.become_leader(0, T)
    log.append([batch(0), batch(1, leader_epoch=2), batch(2, leader_epoch=2)], T)
    assert epochs(log) == b"0\n2\n0 0\n2 1\n"
    log.become_leader(5, T)
    log.become_leader(6, T)
    assert epochs(log) == b"0\n3\n0 0\n2 1\n6 3\n"
    log.append(batch(3, leader_epoch=-1), T)
    assert epochs(log) == b"0\n3\n0 0\n2 1\n6 3\n"


def test_an_old_format_clears_the_history_of_leaders() -> None:
    log = writer()
    log.append(batch(0), T)
    log.append(handmade.message_v1(1, T, b"k", b"v"), T)
    assert epochs(log) == b"0\n0\n"


def test_root_files_have_the_offsets_of_a_stop_or_of_the_last_checkpoint() -> None:
    log = writer({"segment.bytes": str(2 * SIZE)})
    for offset in range(3):
        log.append(batch(offset), T)
    killed = log.kill()
    assert (killed.recovery_point, killed.high_watermark, killed.log_start_offset) == (None, None, None)
    log.checkpoint()
    log.append(batch(3), T)
    killed = log.kill()
    assert (killed.recovery_point, killed.high_watermark, killed.is_clean) == (2, 3, False)
    closed = log.close(T)
    assert (closed.recovery_point, closed.high_watermark, closed.is_clean) == (4, 4, True)


def test_flush_messages_and_flush_ms_move_the_recovery_point() -> None:
    log = writer({"flush.messages": "3", "flush.ms": "50"})
    points = []
    for offset in range(5):
        log.append(batch(offset), T + offset)
        points.append(log.recovery_point)
    assert points == [0, 0, 3, 3, 3]
    assert not log.flush_if_due(T + 51)
    assert log.flush_if_due(T + 52)
    assert log.recovery_point == 5


def test_deleted_records_move_the_log_start_and_cut_the_history() -> None:
    log = writer({"segment.bytes": str(2 * SIZE)})
    for offset in range(5):
        log.append(batch(offset, leader_epoch=offset // 2), T)
    log.delete_records(3, T)
    assert epochs(log) == b"0\n2\n1 3\n2 4\n"
    assert log.close(T).log_start_offset == 3
    log.delete_records(2, T)
    assert log.log_start_offset == 3
    with pytest.raises(ValueError, match="the log ends at 5"):
        log.delete_records(6, T)


def test_a_time_of_change_is_the_clock_of_the_last_step_that_changed_a_file() -> None:
    log = writer({"segment.bytes": str(2 * SIZE)}, topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    log.become_leader(0, T + 1)
    for offset in range(3):
        log.append(batch(offset), T + 10 + offset)
    times = {name: held.modified_ms - T for name, held in log.close(T + 99).files.items()}
    assert times == {
        "leader-epoch-checkpoint": 1,
        "partition.metadata": 0,
        file(0, "log"): 11,
        file(0, "index"): 12,
        file(0, "timeindex"): 12,
        file(2, "log"): 12,
        file(2, "snapshot"): 12,
        file(2, "index"): 99,
        file(2, "timeindex"): 99,
        file(3, "snapshot"): 99,
    }


# ---------------------------------------------------------------------------------------------------------- truncation


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


# ---------------------------------------------------------------------------------------------------------- bad appends


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", ValueError),
        (batch(0)[:-1], ValueError),
        (batch(0) + b"x", ValueError),
        (batch(0) + batch(0), ValueError),
        (batch(1) + batch(0), ValueError),
        (handmade.flip(batch(0), 64), CorruptRecordError),
    ],
)
def test_what_is_no_append_is_refused_and_changes_nothing(data, error) -> None:
    log = writer()
    with pytest.raises(error):
        log.append(data, T)
    assert log.log_end_offset == 0
    assert contents(log.close(T))[file(0, "log")] == b""


def test_offsets_below_the_log_end_are_refused() -> None:
    log = writer()
    log.append(batch(5), T)
    with pytest.raises(ValueError, match="below the expected 6"):
        log.append(batch(5), T)


def test_a_log_cannot_be_cut_below_zero_nor_led_in_a_negative_epoch() -> None:
    with pytest.raises(ValueError, match="cut back"):
        writer().truncate(-1, T)
    with pytest.raises(ValueError, match="negative"):
        writer().become_leader(-1, T)


def test_the_default_configuration_is_kafkas() -> None:
    log = LogWriter(ORDERS, TopicConfig(), BrokerLine.V4_4, as_of_ms=T)
    log.append(batch(0), T)
    assert len(contents(log.kill())[file(0, "index")]) == 10_485_760
    assert len(contents(log.kill())[file(0, "timeindex")]) == 10_485_756
