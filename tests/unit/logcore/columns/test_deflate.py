"""Gzip by the fast decoder is taken exactly where zlib takes it."""

from __future__ import annotations

import gzip
import random
import zlib

import pyarrow as pa
import pytest

from logcore.columns.engines import Engine, decode_segment
from logcore.columns.kernels import batch_row
from logcore.columns.wanted import Place
from logcore.records.model import DEFAULT_LIMITS
from tests import handmade

PLACE = Place("t", 0, "l", "s")
COUNT = 60


def plain_records() -> bytes:
    chosen = random.Random(7)
    words = [b"click", b"view", b"buy", b"refund", b"\x00\xff"]
    return b"".join(
        handmade.record(
            delta, b"key-%d" % chosen.randrange(40), chosen.choice(words) + b" %d" % chosen.randrange(10**6)
        )
        for delta in range(COUNT)
    )


def segment(stored: bytes) -> bytes:
    return handmade.batch(attributes=1, count=COUNT, last_offset_delta=COUNT - 1, body=stored)


def read(data: bytes, engine: Engine) -> tuple[list[object], list[object], int]:
    walk = decode_segment(data, place=PLACE, base_offset=0, sealed=True, engine=engine)
    items = list(walk)
    rows = [row for item in items if isinstance(item, pa.RecordBatch) for row in item.to_pylist()]
    return rows, [item for item in items if not isinstance(item, pa.RecordBatch)], walk.careful_steps


def found_sound(stored: bytes) -> bool:
    from logcore.columns.decoding.batch_table import BatchTable

    batches = BatchTable(segment(stored), 10**6, DEFAULT_LIMITS)
    batches.fill(0, 0, 10**6)
    assert batches.count == 1
    batches._add_foreign(0, 1)
    return bool(batches.table[0, batch_row.SOUND])


def test_what_producers_write_is_sound_and_needs_no_second_look() -> None:
    for level in (1, 6, 9):
        stored = gzip.compress(plain_records(), level, mtime=0)
        assert found_sound(stored), level
        rows, stretches, careful = read(segment(stored), Engine.KERNELS)
        assert (len(rows), stretches, careful) == (COUNT, [], 0)


@pytest.mark.parametrize("strategy", [zlib.Z_FIXED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE])
def test_other_ways_to_deflate_are_read_too(strategy: int) -> None:
    made = zlib.compressobj(6, zlib.DEFLATED, 31, 8, strategy)
    stored = made.compress(plain_records()) + made.flush()
    assert read(segment(stored), Engine.KERNELS)[:2] == read(segment(stored), Engine.REFERENCE)[:2]


def test_several_blocks_are_left_to_zlib() -> None:
    made = zlib.compressobj(6, zlib.DEFLATED, 31)
    plain = plain_records()
    stored = made.compress(plain[:500]) + made.flush(zlib.Z_FULL_FLUSH) + made.compress(plain[500:]) + made.flush()
    assert not found_sound(stored)
    assert len(read(segment(stored), Engine.KERNELS)[0]) == COUNT


def test_every_flipped_bit_in_the_tables_has_the_same_outcome_as_with_zlib() -> None:
    stored = gzip.compress(plain_records(), 6, mtime=0)
    assert stored[10] & 7 == 5  # one block, with tables of its own
    taken = 0
    for bit in range(8 * 100):
        hurt = bytearray(stored)
        hurt[bit // 8] ^= 1 << (bit % 8)
        ours, specified = read(segment(bytes(hurt)), Engine.KERNELS), read(segment(bytes(hurt)), Engine.REFERENCE)
        assert ours[:2] == specified[:2], bit
        taken += bool(ours[0])
    assert taken > 0  # a flipped field of the gzip header does no harm
