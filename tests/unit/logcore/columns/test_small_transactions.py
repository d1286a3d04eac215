"""Transactions of one record each: kernels read them in few calls, and as the reference does, damaged or not."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import zstandard

from logcore.columns.checking.checked import CheckedSegment
from logcore.columns.kernels.library import Library
from logcore.columns.wanted import Wanted
from tests import handmade
from tests.unit.logcore.columns.both_decoders import agreed
from tests.unit.logcore.columns.decoded_rows import decoded

pytestmark = pytest.mark.slow

STORED: dict[int, Callable[[bytes], bytes]] = {
    0: bytes,
    handmade.GZIP: handmade.stored_gzip,
    handmade.SNAPPY: handmade.stored_snappy,
    handmade.LZ4: handmade.stored_lz4,
    handmade.ZSTD: zstandard.ZstdCompressor().compress,
}
CODECS = list(STORED)
PRODUCERS = 4


def transactions(count: int, codec: int = 0, records: int = 1) -> bytes:
    """So many transactions, by producers in turn; each is a batch and a marker."""
    parts, offset = [], 0
    for number in range(count):
        producer = number % PRODUCERS
        stored = [handmade.record(at, b"key-%d" % number, b"value of %d" % number) for at in range(records)]
        parts.append(
            handmade.batch(
                body=STORED[codec](b"".join(stored)),
                count=records,
                last_offset_delta=records - 1,
                base_offset=offset,
                attributes=handmade.TRANSACTIONAL | codec,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=number // PRODUCERS * records,
            )
        )
        parts.append(handmade.marker(offset + records, handmade.COMMIT, producer_id=producer))
        offset += records + 1
    return b"".join(parts)


def calls_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the kernels that are called from now on."""
    called: list[str] = []
    original = Library.call

    def call(self: Library, kernel: str, address: int) -> None:
        called.append(kernel)
        original(self, kernel, address)

    monkeypatch.setattr(Library, "call", call)
    return called


@pytest.mark.parametrize("codec", CODECS)
def test_a_thousand_transactions_of_one_record_are_read_in_few_calls(codec, monkeypatch):
    data = transactions(1000, codec)
    called = calls_of(monkeypatch)
    rows, stretches, careful = decoded(data, wanted=Wanted(visible=((0, 2000),)))
    assert rows["offset"].to_pylist() == list(range(0, 2000, 2))
    assert (stretches, careful) == ([], 0)
    # A package decompresses few batches in the first calls.
    assert 0 < len(called) <= (20 if codec in (handmade.GZIP, handmade.SNAPPY) else 6), called


@pytest.mark.parametrize("codec", CODECS)
def test_a_thousand_transactions_of_one_record_are_checked_in_few_calls(codec, monkeypatch):
    data = transactions(1000, codec)
    called = calls_of(monkeypatch)
    checked = CheckedSegment(data, base_offset=0, sealed=True, file="f.log")
    assert [len(table) for table in checked] == [2000]
    assert 0 < len(called) <= (20 if codec in (handmade.GZIP, handmade.SNAPPY) else 6), called


def test_markers_before_the_first_compressed_batch_are_in_its_table(monkeypatch):
    markers = b"".join(handmade.marker(at, handmade.COMMIT, producer_id=7) for at in range(3))
    data = markers + handmade.batch(
        body=handmade.stored_lz4(handmade.record(0, b"k", b"v")), count=1, base_offset=3, attributes=handmade.LZ4
    )
    called = calls_of(monkeypatch)
    rows, _, careful = decoded(data, wanted=Wanted(control=True))
    assert rows["offset"].to_pylist() == [0, 1, 2, 3]
    assert (careful, called.count("walk")) == (0, 1)


def test_a_large_plain_batch_among_compressed_ones_is_in_a_table_of_its_own(monkeypatch):
    """Plain records are read where they are. Only markers are copied to the decompressed records."""
    plain = handmade.batch([handmade.record(0, b"k", bytes(100_000))], base_offset=80)
    data = transactions(40, handmade.LZ4) + plain
    called = calls_of(monkeypatch)
    rows, _, careful = agreed(data)
    assert rows.num_rows == 41
    assert (careful, called.count("walk")) == (0, 2)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(),
        Wanted(control=True),
        Wanted(visible=tuple((offset, offset + 1) for offset in range(0, 240, 4))),
        Wanted(visible=tuple((offset, offset + 3) for offset in range(1, 240, 7))),
        Wanted(visible=((5, 5), (117, 118))),
        Wanted(producer_id=2),
        Wanted(key=b"key-50"),
    ],
    ids=["data", "all", "every other", "across", "one", "producer", "key"],
)
def test_whatever_is_wanted_of_them_is_what_the_reference_gives(codec, wanted):
    rows, stretches, _ = agreed(transactions(80, codec, records=2), wanted=wanted)
    assert rows.num_rows
    assert not stretches


@pytest.mark.parametrize("codec", CODECS)
def test_damage_anywhere_between_them_is_what_the_reference_finds(codec):
    data = transactions(60, codec)
    chance = random.Random(f"small transactions {codec}")
    wanted = Wanted(visible=((0, 31), (33, 70), (74, 200)))
    damaged = 0
    for _ in range(60):
        other = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(other))
            other[at] ^= 1 << chance.randrange(8)
        _, stretches, _ = agreed(bytes(other), wanted=wanted)
        damaged += bool(stretches)
    assert damaged > 40


def test_a_batch_with_a_wrong_count_among_them_loses_nothing_around_it():
    """Its checksum is right, so only its records show it."""
    good = transactions(40)
    bad = handmade.batch(
        [handmade.record(0, b"k", b"v")],
        count=2,
        base_offset=80,
        attributes=handmade.TRANSACTIONAL,
        producer_id=9,
        producer_epoch=0,
        base_sequence=0,
    )
    marker = handmade.marker(82, handmade.COMMIT, producer_id=9)
    rest = b"".join(
        handmade.simple_batch(at, [(b"k", b"v")]) + handmade.marker(at + 1, handmade.COMMIT, producer_id=9)
        for at in range(83, 100, 2)
    )
    rows, stretches, _ = agreed(good + bad + marker + rest, wanted=Wanted())
    assert rows["offset"].to_pylist() == [*range(0, 80, 2), *range(83, 100, 2)]
    assert [stretch.position for stretch in stretches] == [len(good)]
