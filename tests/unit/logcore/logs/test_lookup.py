"""Offsets as a broker lists them, and where a fetch starts: in the right segment, never in a later one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from logcore.logs.lookup import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    MAX_TIMESTAMP,
    NOTHING,
    LookupLog,
    LookupSegment,
    OffsetAnswer,
    list_offsets,
)
from logcore.records.model import BatchHeader, Record
from logcore.records.record import read_records
from logcore.segments.scanning.scan import ScannedBatch, SegmentScan
from logcore.segments.side_files.leader_epochs import EpochEntry
from tests import handmade


def batch(offset: int, *timestamps: int, leader_epoch: int = 3, **fields: int) -> bytes:
    """A batch of records at successive offsets with these timestamps."""
    first = timestamps[0]
    records = [handmade.record(delta, timestamp_delta=time - first) for delta, time in enumerate(timestamps)]
    return handmade.batch(
        records,
        base_offset=offset,
        base_timestamp=first,
        max_timestamp=max(timestamps),
        leader_epoch=leader_epoch,
        **fields,
    )


LOW = (batch(0, 100, 300, 200), batch(3, 150), batch(4, 400, 400), batch(8, 250, leader_epoch=-1))
HIGH = (batch(10, 500), batch(11, 350, 450, leader_epoch=4), batch(13, 500))


@dataclass(frozen=True)
class PackedBatch:
    """A good batch among these bytes."""

    content: bytes
    position: int
    header: BatchHeader

    def records(self) -> Iterator[Record]:
        return read_records(self.content, self.position, self.header)


def packed(content: bytes, base_offset: int = 0) -> Callable[[], Iterator[PackedBatch]]:
    def batches() -> Iterator[PackedBatch]:
        for item in SegmentScan(content, base_offset=base_offset, sealed=False):
            if isinstance(item, ScannedBatch):
                yield PackedBatch(content, item.position, item.header)

    return batches


def segment(base_offset: int, *batches: bytes, max_timestamp: int, modified_ms: int = 10**6) -> LookupSegment:
    return LookupSegment(base_offset, packed(b"".join(batches), base_offset), max_timestamp, modified_ms)


def log(*segments: LookupSegment, start: int = 0, end: int = 14, epochs: tuple[EpochEntry, ...] = ()) -> LookupLog:
    return LookupLog(segments, start, end, epochs)


BOTH = log(segment(0, *LOW, max_timestamp=400), segment(10, *HIGH, max_timestamp=500))


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (0, OffsetAnswer(0, 100, 3)),
        (100, OffsetAnswer(0, 100, 3)),
        (101, OffsetAnswer(1, 300, 3)),
        (300, OffsetAnswer(1, 300, 3)),
        (301, OffsetAnswer(4, 400, 3)),
        (400, OffsetAnswer(4, 400, 3)),
        (401, OffsetAnswer(10, 500, 3)),
        (500, OffsetAnswer(10, 500, 3)),
        (501, NOTHING),
        (2**62, NOTHING),
    ],
)
def test_a_time_finds_the_first_record_that_is_not_earlier(timestamp: int, expected: OffsetAnswer) -> None:
    assert list_offsets(BOTH, timestamp) == expected


def test_records_below_the_log_start_are_not_found() -> None:
    trimmed = log(*BOTH.segments, start=2)
    assert list_offsets(trimmed, 0) == OffsetAnswer(2, 200, 3)
    assert list_offsets(trimmed, 250) == OffsetAnswer(4, 400, 3)


def test_an_answer_at_or_above_what_may_be_fetched_is_none() -> None:
    assert list_offsets(log(*BOTH.segments, end=10), 401) == NOTHING
    assert list_offsets(log(*BOTH.segments, end=11), 401) == OffsetAnswer(10, 500, 3)
    assert list_offsets(log(*BOTH.segments, end=10), MAX_TIMESTAMP) == NOTHING


def test_only_the_first_segment_that_reaches_a_time_is_searched() -> None:
    # Its greatest timestamp lies below the log start now: a later segment has the time, and is not asked.
    hidden = log(segment(0, *LOW, max_timestamp=400), segment(10, *HIGH, max_timestamp=500), start=8)
    assert list_offsets(hidden, 300) == NOTHING
    assert list_offsets(hidden, 250) == OffsetAnswer(8, 250, None)


def test_a_segment_without_timestamps_counts_by_its_files_time() -> None:
    old = b"".join(handmade.message_v0(offset, b"k", b"v") for offset in range(3))
    fresh = LookupSegment(0, packed(old), -1, modified_ms=600)
    stale = LookupSegment(0, packed(old), -1, modified_ms=399)
    high = segment(10, *HIGH, max_timestamp=500)
    assert list_offsets(log(fresh, high), 400) == NOTHING, "the fresh file hides what comes after it"
    assert list_offsets(log(stale, high), 400) == OffsetAnswer(10, 500, 3)


def test_a_segment_that_was_lost_to_the_time_index_is_searched_if_its_file_is_fresh() -> None:
    assert list_offsets(log(segment(0, *LOW, max_timestamp=-1)), 350) == OffsetAnswer(4, 400, 3)


def test_markers_are_found_like_records() -> None:
    marker = handmade.marker(5, handmade.COMMIT, producer_id=9, base_timestamp=700, leader_epoch=3)
    only = segment(0, batch(0, 100), marker, max_timestamp=700)
    assert list_offsets(log(only), 101) == OffsetAnswer(5, 700, 3)


def test_a_batch_with_append_time_is_found_by_its_first_record() -> None:
    appended = batch(3, 10, 20, 30, attributes=handmade.LOG_APPEND_TIME)
    whole = handmade.fix_crc(appended[:35] + (900).to_bytes(8, "big") + appended[43:])
    assert list_offsets(log(segment(0, whole, max_timestamp=900)), 25) == OffsetAnswer(3, 900, 3)
    assert list_offsets(log(segment(0, whole, max_timestamp=900), start=4), 25) == OffsetAnswer(4, 900, 3)


def test_messages_of_the_old_formats_have_no_epoch() -> None:
    old = b"".join(handmade.message_v1(offset, 100 * offset, b"k", b"v") for offset in range(3))
    assert list_offsets(log(segment(0, old, max_timestamp=200)), 150) == OffsetAnswer(2, 200, None)


def test_the_greatest_timestamp_is_that_of_the_first_segment_and_record_that_reach_it() -> None:
    assert list_offsets(BOTH, MAX_TIMESTAMP) == OffsetAnswer(10, 500, 3)
    equal = log(segment(0, *LOW, max_timestamp=400), segment(10, batch(10, 400), max_timestamp=400))
    assert list_offsets(equal, MAX_TIMESTAMP) == OffsetAnswer(4, 400, 3)


def test_without_timestamps_there_is_no_greatest() -> None:
    assert list_offsets(log(LookupSegment(0, packed(handmade.message_v0(0, b"k", b"v")), -1, 600)), -3) == NOTHING
    assert list_offsets(log(), MAX_TIMESTAMP) == NOTHING


def test_a_batch_that_compaction_emptied_hides_the_greatest_timestamp() -> None:
    emptied = handmade.batch((), base_offset=0, last_offset_delta=4, base_timestamp=-1, max_timestamp=400)
    assert list_offsets(log(segment(0, emptied, batch(5, 400), max_timestamp=400)), MAX_TIMESTAMP) == NOTHING


EPOCHS = (EpochEntry(2, 5), EpochEntry(4, 11))


@pytest.mark.parametrize("at", [EARLIEST, EARLIEST_LOCAL])
@pytest.mark.parametrize(("start", "epoch"), [(5, 2), (6, 2), (4, None)])
def test_earliest_is_the_log_start_with_the_first_epoch_if_that_reaches_down_to_it(
    at: int, start: int, epoch: int | None
) -> None:
    assert list_offsets(log(*BOTH.segments, start=start, epochs=EPOCHS), at) == OffsetAnswer(start, -1, epoch)


def test_latest_is_the_end_of_what_may_be_fetched_with_the_last_epoch() -> None:
    assert list_offsets(log(*BOTH.segments, end=9, epochs=EPOCHS), LATEST) == OffsetAnswer(9, -1, 4)
    assert list_offsets(log(), LATEST) == OffsetAnswer(14, -1, None)


def test_other_negative_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="special value"):
        list_offsets(BOTH, -7)


def test_offsets_of_remote_storage_are_unknown_without_it() -> None:
    assert [list_offsets(BOTH, at) for at in (-5, -6)] == [NOTHING, NOTHING]


@pytest.mark.parametrize(("tiered_end", "latest", "pending"), [(4, 3, 4), (1, 0, 2)])
def test_the_earliest_pending_upload_is_not_below_the_log_start(tiered_end: int, latest: int, pending: int) -> None:
    tiered = replace(log(*BOTH.segments, epochs=[EpochEntry(3, 0)]), tiered_end_offset=tiered_end, log_start_offset=2)
    assert list_offsets(tiered, -5) == OffsetAnswer(latest, -1, 3)
    assert list_offsets(tiered, -6) == OffsetAnswer(pending, -1, 3)


def test_damage_is_passed_over() -> None:
    injured = (LOW[0], handmade.flip(LOW[1], 65), *LOW[2:])
    only = segment(0, *injured, max_timestamp=400)
    assert list_offsets(log(only), 301) == OffsetAnswer(4, 400, 3)
