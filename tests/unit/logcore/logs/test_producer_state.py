"""What a broker would know of each producer after these batches, written out by hand."""

from dataclasses import dataclass

import pytest

from logcore.errors import InvalidRecordError
from logcore.logs.model.producers.producer_state import Completed, ProducerReplay, last_sequence, ongoing
from logcore.logs.model.producers.producers_at import producers_at
from logcore.logs.model.transactions import Ongoing
from logcore.segments.side_files.producer_state import ProducerEntry
from logcore.segments.side_files.transaction_index import AbortedTransaction
from tests import handmade


@dataclass(frozen=True)
class Batch:
    base_offset: int
    last_offset: int
    producer_id: int
    producer_epoch: int = 0
    base_sequence: int = 0
    max_timestamp: int = 1000
    record_count: int = 1
    is_transactional: bool = True
    is_control: bool = False
    control_type: str | None = None


def data(producer: int, first: int, last: int, sequence: int = 0, **given) -> Batch:
    return Batch(first, last, producer, base_sequence=sequence, **given)


def marker(producer: int, offset: int, kind: str, **given) -> Batch:
    return Batch(offset, offset, producer, base_sequence=-1, is_control=True, control_type=kind, **given)


def replayed(*batches: Batch, entries=()) -> ProducerReplay:
    replay = ProducerReplay(entries)
    for batch in batches:
        replay.take(batch, 7)
    return replay


def test_a_data_batch_leaves_its_last_sequence_last_offset_and_greatest_timestamp() -> None:
    replay = replayed(data(1, 10, 14, 3, is_transactional=False, max_timestamp=5000))
    assert replay.entries() == {1: ProducerEntry(1, 0, 7, 14, 4, 5000, -1, -1)}


def test_a_transaction_is_open_from_its_first_batch_to_its_marker() -> None:
    replay = replayed(data(1, 10, 11), data(1, 12, 13, 2))
    assert replay.entries()[1].open_transaction == 10
    assert replay.take(marker(1, 14, "COMMIT", max_timestamp=9000), 7) == Completed(1, 10, 14, False)
    assert replay.entries()[1] == ProducerEntry(1, 0, 3, 13, 1, 9000, 7, -1)


def test_a_marker_of_a_newer_epoch_forgets_the_batches_seen() -> None:
    replay = replayed(data(1, 10, 11), marker(1, 12, "ABORT", producer_epoch=1, max_timestamp=2000))
    assert replay.entries()[1] == ProducerEntry(1, 1, -1, -1, 0, 2000, 7, -1)


def test_data_of_another_epoch_restarts_the_sequence() -> None:
    replay = replayed(data(1, 10, 11, 5), data(1, 12, 12, 0, producer_epoch=1))
    assert replay.entries()[1] == ProducerEntry(1, 1, 0, 12, 0, 1000, -1, 10)
    assert replay.last_data(1) == (1, 0)


def test_a_marker_without_an_open_transaction_completes_nothing_and_is_remembered() -> None:
    replay = ProducerReplay()
    assert replay.take(marker(3, 5, "ABORT"), 2) is None
    assert replay.entries()[3] == ProducerEntry(3, 0, -1, -1, 0, 1000, 2, -1)


@pytest.mark.parametrize(
    "batch", [marker(1, 12, "COMMIT", record_count=0), marker(1, 12, "LEADER_CHANGE"), data(-1, 12, 13)]
)
def test_what_is_no_marker_with_a_record_changes_nothing(batch: Batch) -> None:
    before = replayed(data(1, 10, 11))
    assert replayed(data(1, 10, 11), batch).entries() == before.entries()


def test_sequences_continue_at_zero_after_the_greatest() -> None:
    assert last_sequence(data(1, 0, 3, 2**31 - 2)) == 1
    assert last_sequence(data(1, 0, 3, 2**31 - 4)) == 2**31 - 1
    assert last_sequence(data(1, 0, 3, -1)) == -1


def test_an_aborted_transactions_entry_names_the_earliest_other_one_still_open() -> None:
    replay = replayed(data(1, 0, 1), data(2, 2, 3), data(3, 4, 5), marker(1, 6, "ABORT"))
    assert replay.aborted(Completed(1, 0, 6, True)) == AbortedTransaction(1, 0, 6, 2)
    replay.take(marker(2, 7, "COMMIT"))
    ended = replay.take(marker(3, 8, "ABORT"))
    assert ended == Completed(3, 4, 8, True)
    assert replay.aborted(ended) == AbortedTransaction(3, 4, 8, 9)


def test_a_snapshot_is_gone_on_from() -> None:
    entries = [ProducerEntry(2, 0, 4, 95, 0, 900, 1, 90), ProducerEntry(1, 3, 8, 97, 1, 950, 1, 80)]
    replay = replayed(data(1, 100, 101, 9, producer_epoch=3), entries=entries)
    ended = replay.take(marker(2, 102, "ABORT"))
    assert ended == Completed(2, 90, 102, True)
    assert replay.aborted(ended).last_stable_offset == 80
    assert replay.entries()[1] == ProducerEntry(1, 3, 10, 101, 1, 1000, 1, 80)


def test_transactions_in_progress_are_those_with_a_first_offset_in_the_snapshot() -> None:
    entries = [
        ProducerEntry(1, 3, 8, 97, 1, 950, 1, 80),
        ProducerEntry(2, 0, 4, 95, 0, 900, 1, -1),
        ProducerEntry(3, 0, -1, -1, 0, 900, 1, 70),
        ProducerEntry(4, 0, 4, 120, 0, 900, 1, 110),
    ]
    assert ongoing(entries, 100) == (Ongoing(3, 0, 70, 70), Ongoing(1, 3, 80, 97))


def test_a_coordinator_epoch_that_was_not_looked_at_is_not_claimed_to_be_known() -> None:
    replay = ProducerReplay()
    replay.take(data(1, 0, 1))
    assert replay.knows_coordinator_epoch(1)
    replay.take(marker(1, 2, "COMMIT"))
    assert not replay.knows_coordinator_epoch(1)
    assert not replay.knows_coordinator_epoch(2)


def test_a_batch_outside_of_the_open_transaction_is_an_error_only_if_requested() -> None:
    outside = data(1, 12, 12, 2, is_transactional=False)
    assert replayed(data(1, 10, 11), outside).entries()[1].last_offset == 12
    strict = ProducerReplay(is_strict=True)
    strict.take(data(1, 10, 11))
    with pytest.raises(InvalidRecordError, match="outside of its transaction"):
        strict.take(outside)


def written(base_offset: int, producer: int, timestamp: int, sequence: int = 0, transactional: bool = False) -> bytes:
    return handmade.simple_batch(
        base_offset,
        [(b"k", b"v"), (b"k", b"w")],
        producer_id=producer,
        producer_epoch=0,
        base_sequence=sequence,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        attributes=handmade.TRANSACTIONAL if transactional else 0,
    )


SEGMENTS = [
    written(0, 1, 1000) + written(2, 2, 5000) + handmade.simple_batch(4, [(b"k", b"v")]),
    written(5, 3, 1000, transactional=True)
    + handmade.marker(7, handmade.COMMIT, producer_id=4, coordinator_epoch=6, base_timestamp=5000),
]


def test_the_producers_of_a_log_are_replayed_from_its_batches() -> None:
    assert producers_at(None, SEGMENTS, 10**6, 1) == (
        ProducerEntry(1, 0, 1, 1, 1, 1000, -1, -1),
        ProducerEntry(2, 0, 1, 3, 1, 5000, -1, -1),
        ProducerEntry(3, 0, 1, 6, 1, 1000, -1, 5),
        ProducerEntry(4, 0, -1, -1, 0, 5000, 6, -1),
    )


def test_expired_producers_of_a_snapshot_are_left_out_unless_their_transaction_is_open() -> None:
    """They expire to the millisecond. Batches after the snapshot count. Bytes that cannot be walked do not."""
    known = (ProducerEntry(8, 2, 5, 1, 0, 1000, -1, 0), ProducerEntry(9, 2, 5, 2, 0, 4000, -1, -1))
    junk = written(0, 1, 1000) + bytes(40)

    def found(as_of_ms: int) -> list[int]:
        return [each.producer_id for each in producers_at((5, known), [junk, SEGMENTS[1]], as_of_ms, 10_000)]

    assert found(13_999) == [8, 9, 3, 4]
    assert found(14_000) == [8, 3, 4]
