"""The producer snapshot: whole and right, or refused."""

import struct

import pytest

from logcore.errors import CorruptIndexError
from logcore.segments.side_files.producer_state import ProducerEntry, encode, parse
from tests import handmade

ROWS = (
    (16, 0, 9, 41, 4, 1_700_000_000_000, -1, -1),
    (7, 3, -1, -1, 0, 1_700_000_000_500, 2, -1),
    (2**40, 32767, 2**31 - 1, 2**62, 2**31 - 1, -1, -1, 37),
)
ENTRIES = tuple(ProducerEntry(*row) for row in ROWS)


def packed(*rows: tuple[int, ...], version: int = 1, count: int | None = None, after: bytes = b"") -> bytes:
    body = struct.pack(">i", len(rows) if count is None else count)
    body += b"".join(struct.pack(">qhiqiqiq", *row) for row in rows) + after
    return struct.pack(">hI", version, handmade.crc32c(body)) + body


def test_an_empty_snapshot_of_a_real_broker() -> None:
    data = bytes.fromhex("0001 48674bc7 00000000")
    assert parse(data) == ()
    assert encode(()) == data


def test_a_snapshot_of_a_real_broker() -> None:
    """Kafka 3.9.2, inside a transaction; its own tool prints these values, and a first sequence of 116."""
    data = bytes.fromhex(
        "0001 98fd7c06 00000001 0000000000000006 0000 0000007b 0000000000000094 00000007 000001a1f9c961b6"
        "00000000 000000000000008d"
    )
    (entry,) = parse(data)
    assert entry == ProducerEntry(
        producer_id=6,
        producer_epoch=0,
        last_sequence=123,
        last_offset=148,
        offset_delta=7,
        timestamp=1795192086966,
        coordinator_epoch=0,
        current_txn_first_offset=141,
    )
    assert (entry.first_sequence, entry.open_transaction) == (116, 141)
    assert encode([entry]) == data


def test_entries_keep_the_order_of_the_file() -> None:
    assert parse(packed(*ROWS)) == ENTRIES
    assert encode(ENTRIES) == packed(*ROWS)
    assert encode(ENTRIES[::-1]) == packed(*ROWS[::-1])


def test_no_batch_means_no_sequence_and_no_transaction() -> None:
    assert (ENTRIES[1].first_sequence, ENTRIES[1].open_transaction) == (-1, None)


@pytest.mark.parametrize(("last", "delta", "first"), [(9, 4, 5), (3, 3, 0), (1, 4, 2**31 - 3), (0, 0, 0)])
def test_the_first_sequence_may_lie_before_the_wrap(last: int, delta: int, first: int) -> None:
    assert ProducerEntry(1, 0, last, 10, delta, 0, -1, -1).first_sequence == first


@pytest.mark.parametrize("length", range(len(packed(*ROWS))))
def test_a_snapshot_cut_anywhere_is_refused(length: int) -> None:
    with pytest.raises(CorruptIndexError):
        parse(packed(*ROWS)[:length])


@pytest.mark.parametrize("bit", range(8 * len(packed(ROWS[0]))))
def test_every_flipped_bit_is_seen(bit: int) -> None:
    with pytest.raises(CorruptIndexError):
        parse(handmade.flip(packed(ROWS[0]), bit // 8, bit % 8))


@pytest.mark.parametrize(
    "data",
    [
        packed(*ROWS, version=0),
        packed(*ROWS, version=2),
        packed(*ROWS, count=-1),
        packed(*ROWS, count=2),
        packed(*ROWS, count=4),
        packed(*ROWS, count=2**31 - 1),
        packed(*ROWS, after=b"\0"),
        packed(ROWS[0], ROWS[0]),
    ],
)
def test_a_snapshot_that_contradicts_itself_is_refused_even_with_a_right_crc(data: bytes) -> None:
    with pytest.raises(CorruptIndexError):
        parse(data)


@pytest.mark.parametrize(
    "row", [(2**63, 0, 0, 0, 0, 0, 0, 0), (0, 2**15, 0, 0, 0, 0, 0, 0), (0, 0, 2**31, 0, 0, 0, 0, 0)]
)
def test_entries_that_do_not_fit_are_not_encoded(row: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        encode([ProducerEntry(*row)])
