"""Newest offsets through files: as from one map, whatever is cut where."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import numpy as np
import pytest

from spark_jobs.compaction.key_hashes import (
    Hashed,
    bits_for,
    folded,
    lost_newest,
    read_newer,
    write_hashes,
    write_newer,
)
from spark_jobs.compaction.row_blocks import BlockFiles

Rows = list[tuple[int, bytes]]


def hashed(rows: Rows, secret: bytes, meeting: bool = False) -> Hashed:
    """`meeting`: the first half of every hash is one of two numbers."""
    digests = [hashlib.blake2b(key, key=secret, digest_size=16).digest() for _, key in rows]
    words = np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2)
    high = words[:, 0] % np.uint64(2) if meeting else words[:, 0].copy()
    return Hashed(high, words[:, 1].copy(), np.array([offset for offset, _ in rows], np.int64))


def newer_of(
    lake: Path, groups: list[list[Rows]], dirty: int, secret: bytes, *, bits: int, rows: int, at_once: int = 3
) -> list[dict[tuple[int, int], int]]:
    """What each group receives, by hash, and how many rows it took."""
    files: list[list[str]] = []
    for number, segments in enumerate(groups):
        files.append([])
        for index, segment in enumerate(segments):
            some = (hashed(segment[at : at + at_once], secret) for at in range(0, len(segment), at_once))
            files[-1].append(f"keys-{number}-{index}")
            write_hashes(str(lake), files[-1][-1], some, dirty, bits, rows, keeps_oldest=True)
    paths = [f"newer-{bucket}" for bucket in range(1 << bits)]
    for bucket, path in enumerate(paths):
        write_newer(str(lake), path, files, bucket, bits, rows)
    received = []
    for number in range(len(groups)):
        found: dict[tuple[int, int], int] = {}
        for some in read_newer(str(lake), paths, number, len(groups)):
            for high, low, newest in zip(some.high.tolist(), some.low.tolist(), some.offsets.tolist(), strict=True):
                assert found.setdefault((high, low), newest) == newest
        received.append(found)
    return received


def expected(groups: list[list[Rows]], dirty: int, secret: bytes) -> list[dict[tuple[int, int], int]]:
    newest = {key: offset for group in groups for segment in group for offset, key in segment if offset >= dirty}
    received = []
    for group in groups:
        older = {key for segment in group for offset, key in segment if offset < newest.get(key, -1)}
        rows = hashed([(newest[key], key) for key in older], secret)
        received.append(
            {(int(h), int(low)): int(o) for h, low, o in zip(rows.high, rows.low, rows.offsets, strict=True)}
            if older
            else {}
        )
    return received


@pytest.mark.parametrize(("bits", "rows"), [(0, 1000), (3, 1000), (0, 4), (2, 5)])
@pytest.mark.parametrize("seed", range(6))
def test_a_group_receives_the_keys_that_leave_it_and_no_others(tmp_path, seed, bits, rows):
    chance = random.Random(seed)
    offset, groups = 0, []
    for _ in range(4):
        segments = []
        for _ in range(chance.randint(1, 3)):
            segment = []
            for _ in range(chance.randint(0, 30)):
                offset += chance.randint(1, 3)
                segment.append((offset, b"key-%d" % chance.randint(0, 25)))
            segments.append(segment)
        groups.append(segments)
    dirty, secret = chance.randint(0, offset + 1), chance.randbytes(16)
    received = newer_of(tmp_path, groups, dirty, secret, bits=bits, rows=rows)
    assert received == expected(groups, dirty, secret)


def test_keys_whose_hashes_begin_alike_are_distinguished(tmp_path):
    rows = [(offset, b"key-%d" % (offset % 7)) for offset in range(40)]
    write_hashes(str(tmp_path), "keys", [hashed(rows, b"s", meeting=True)], 0, 1, 100, keeps_oldest=True)
    for bucket in range(2):
        write_newer(str(tmp_path), f"newer-{bucket}", [["keys"]], bucket, 1, 100)
    received = list(read_newer(str(tmp_path), ["newer-0", "newer-1"], 0, 1))
    assert sorted(offset for some in received for offset in some.offsets.tolist()) == list(range(33, 40))


@pytest.mark.parametrize("shared_bits", [0, 40, 57, 64])
def test_a_row_a_hash_is_left_however_many_bits_hashes_have_in_common(shared_bits):
    chance = random.Random(shared_bits)
    high, low = chance.getrandbits(64), chance.getrandbits(64)
    own = (1 << 64 - shared_bits) - 1
    hashes = [(high & ~own | chance.getrandbits(64) & own, low ^ chance.getrandbits(2)) for _ in range(50)]
    rows = [(chance.choice(hashes), offset) for offset in range(400)]
    columns = ([h[0] for h, _ in rows], [h[1] for h, _ in rows])
    table = folded(Hashed(*(np.array(column, np.uint64) for column in columns), np.array([o for _, o in rows])), 390)
    wanted: dict[tuple[int, int], list[int]] = {}
    for key, offset in rows:
        wanted.setdefault(key, []).append(offset)
    never = (1 << 64) - 1
    newest = {key: max(offsets) if max(offsets) >= 390 else never for key, offsets in wanted.items()}
    assert table.tolist() == [[*key, min(wanted[key]), newest[key]] for key in sorted(wanted)]


def test_a_range_of_hashes_with_too_many_rows_is_gone_through_in_parts(tmp_path):
    rows = [(offset, b"key-%d" % (offset % 50)) for offset in range(100)]
    write_hashes(str(tmp_path), "keys", [hashed(rows, b"s")], 0, 0, 1000, keeps_oldest=True)
    assert write_newer(str(tmp_path), "newer", [["keys"]], 0, 0, 8) == 7
    received = list(read_newer(str(tmp_path), ["newer"], 0, 1))
    assert max(len(some) for some in received) < 25
    assert sum(len(some) for some in received) == 50


def test_one_hot_key_takes_one_row_a_sorted_run(tmp_path):
    rows = [(offset, b"hot") for offset in range(1000)]
    some = (hashed(rows[at : at + 10], b"s") for at in range(0, 1000, 10))
    write_hashes(str(tmp_path), "keys", some, 0, 2, 100, keeps_oldest=True)
    with BlockFiles(str(tmp_path)).opened("keys") as file:
        assert file.blocks == 10 * 4
        assert sum(len(file.rows(block)) for block in range(file.blocks)) == 10


def test_ranges_of_hashes_are_as_many_as_the_rows_need_and_no_more():
    assert [bits_for(records, 100) for records in (0, 100, 101, 200, 201, 800)] == [0, 0, 1, 1, 2, 3]
    assert bits_for(10**12, 1) == 12


def lost(lake: Path, before: Rows, after: Rows, rows: int = 100) -> list[int | None]:
    for side, some in (("before", before), ("after", after)):
        found = [hashed(some, b"p")] if some else []
        write_hashes(str(lake), side, found, 0, 1, rows, keeps_oldest=False)
    return [lost_newest(str(lake), ["before"], ["after"], bucket, 1, rows) for bucket in range(2)]


def test_a_newest_record_that_is_gone_is_found_and_a_tombstone_that_is_gone_is_none(tmp_path):
    before = [(4, b"a"), (7, b"b"), (2, b"a"), (10, b"c")]
    assert lost(tmp_path / "1", before, [(4, b"a"), (10, b"c")]) == [None, None]
    assert sorted(lost(tmp_path / "2", before, [(4, b"a")]), key=str) == [5, None]


def test_an_older_record_in_the_place_of_the_newest_is_found_also_of_a_tombstone(tmp_path):
    assert sorted(lost(tmp_path / "1", [(2, b"a"), (4, b"a")], [(2, b"a")]), key=str) == [2, None]
    assert sorted(lost(tmp_path / "2", [(2, b"a"), (5, b"a")], [(2, b"a")], rows=1), key=str) == [2, None]


def test_a_record_that_was_not_there_before_is_not_taken_for_a_newest(tmp_path):
    assert sorted(lost(tmp_path, [(2, b"a")], [(2, b"a"), (8, b"b")]), key=str) == [-1, None]
