"""A writer begins a new segment where a broker does: by size, by time, by its indexes."""

import pytest

from logcore.logs.writer.writer import LogWriter, Roll, RollReason
from tests import handmade
from tests.unit.logcore.logs.writer.written_batches import SIZE, T, batch, writer

MAX_RELATIVE = 2**31 - 1


def rolls(log: LogWriter) -> list[tuple[int, RollReason]]:
    return [(roll.base_offset, roll.reason) for roll in log.rolls]


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
