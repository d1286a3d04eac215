"""Transaction indexes and snapshots of producers that a writer leaves are packed by hand."""

import struct

from tests import handmade
from tests.unit.logcore.logs.writer.written_batches import (
    SIZE,
    T,
    aborted,
    batch,
    contents,
    data,
    entry,
    file,
    marker,
    snapshot,
    writer,
)


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
