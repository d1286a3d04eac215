"""A log cleaned by many tasks, in passes over ranges of hashes: the bytes of one task, and its own proof."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logcore.columns.cleaning.newest_bits import NewestBits
from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.model.topic_config import TopicConfig
from spark_jobs.compaction import spread_cleaning, spread_plan, spread_steps
from spark_jobs.compaction.log_cleaning import CleaningResult, CleaningTask, clean_log
from spark_jobs.compaction.newest_by_key import Aborted
from spark_jobs.compaction.spread_steps import (
    OFFSET_SHIFT,
    REMAINS,
    TOMBSTONE,
    SpreadRound,
    needed_offsets,
    needed_words,
    prove_remaining,
    remaining_offsets,
)
from spark_jobs.newest import hash_ranges
from spark_jobs.newest import packed_rows as packing
from spark_jobs.newest.packed_rows import Hashed, bits_in, packed_offsets, packed_rows, rows_in
from tests import handmade
from tests.in_process import InProcessExecutor
from tests.unit.spark_jobs.compaction.test_spread_cleaning import BEFORE, NOW, Log, archived, marker, row


def slow(value: int | None) -> Any:
    """A value that `make quick` leaves out: the same claim at one more size."""
    return pytest.param(value, marks=pytest.mark.slow)


def a_log(seed: int, *, step: int = 1) -> Log:
    """Twelve segments, some of them empty of keys, with tombstones; `step` leaves gaps between batches."""
    chance = random.Random(seed)
    keys: list[bytes | None] = [None, b"", *(b"key-%d" % number for number in range(25))]
    log: Log = {}
    offset = 0
    for _ in range(12):
        base, content = offset, b""
        for _ in range(chance.randint(1, 6)):
            rows = [
                (chance.choice(keys), chance.choice([None, b"", b"value-%d" % n])) for n in range(chance.randint(1, 8))
            ]
            fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": offset} if chance.random() < 0.3 else {}
            content += handmade.simple_batch(offset, rows, base_timestamp=BEFORE + offset, **fields)
            offset += len(rows) * step
        log[base] = content
    return log | {offset: row(offset, b"key-1")}


def task_of(
    lake: Path, log: Log, first_dirty: int | None = None, segment_bytes: int = 700, map_bytes: int | None = None
) -> CleaningTask:
    end = max(log) + 1
    return CleaningTask(
        lake=str(lake),
        segments=archived(lake, log, {}),
        config=TopicConfig(
            cleanup_policy=("compact",),
            segment_bytes=segment_bytes,
            index_interval_bytes=1,
            log_cleaner_dedupe_buffer_size=map_bytes,
        ),
        line=BrokerLine("4.4"),
        as_of_ms=NOW,
        limit_offset=end,
        first_dirty_offset=first_dirty,
        log_start_offset=0,
        high_watermark=end,
    )


def files_of(lake: Path, done: CleaningResult) -> dict[str, bytes]:
    assert (done.refusal, done.unproven) == (None, None)
    folders = {(lake / each.segment.path).parent for each in done.replaced}
    files = [path for each in folders for path in each.rglob("*") if path.is_file()]
    return {str(path.relative_to(lake)): path.read_bytes() for path in files}


@pytest.fixture
def in_ranges(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes passes of so many keys, and counts every key."""

    def make(keys: int) -> None:
        monkeypatch.setattr(spread_cleaning, "PASS_KEYS", keys)
        monkeypatch.setattr(hash_ranges, "SAMPLED", 0)

    return make


@pytest.mark.parametrize("keys", [slow(4_000_000), 9, slow(1)])
@pytest.mark.parametrize("first_dirty", [slow(None), 40, slow(83)])
@pytest.mark.parametrize("step", [1, slow(1000)])
def test_bits_leave_the_files_of_the_plain_cleaner(tmp_path, monkeypatch, in_ranges, keys, first_dirty, step):
    in_ranges(keys)
    for seed in range(3):
        log = a_log(seed, step=step)
        task = task_of(tmp_path / f"spread-{seed}", log, first_dirty and first_dirty * step)
        done = spread_cleaning.clean_spread(InProcessExecutor(), task)
        with monkeypatch.context() as patch:
            patch.setenv("LOGLAKE_ENGINE", "reference")
            alone = task_of(tmp_path / f"plain-{seed}", log, first_dirty and first_dirty * step)
            expected = clean_log(alone)
        files = files_of(tmp_path / f"plain-{seed}", expected)
        assert files
        assert files_of(tmp_path / f"spread-{seed}", done) == files
        assert done.first_dirty_offset == expected.first_dirty_offset
        assert [each.counts for each in done.replaced] == [each.counts for each in expected.replaced]


@pytest.mark.long
@pytest.mark.parametrize("most_keys", [slow(4_000_000), 7])
@pytest.mark.parametrize("first_dirty", [slow(None), 40, slow(83)])
def test_a_full_map_ends_the_round_of_many_tasks_where_it_ends_that_of_the_plain_cleaner(
    tmp_path, monkeypatch, in_ranges, most_keys, first_dirty
):
    in_ranges(most_keys)
    ends = set()
    for seed in range(3):
        log = a_log(seed)
        for keys in (1, 4, 11, 25, 30):
            name = f"{seed}-{keys}"
            map_bytes = -(-10 * keys // 9) * 24
            task = task_of(tmp_path / f"spread-{name}", log, first_dirty, map_bytes=map_bytes)
            done = spread_cleaning.clean_spread(InProcessExecutor(), task)
            with monkeypatch.context() as patch:
                patch.setenv("LOGLAKE_ENGINE", "reference")
                expected = clean_log(task_of(tmp_path / f"plain-{name}", log, first_dirty, map_bytes=map_bytes))
            assert files_of(tmp_path / f"spread-{name}", done) == files_of(tmp_path / f"plain-{name}", expected)
            assert done.first_dirty_offset == expected.first_dirty_offset
            assert done.map_was_full == expected.map_was_full == (done.first_dirty_offset < max(log))
            assert [each.counts for each in done.replaced] == [each.counts for each in expected.replaced]
            ends.add(done.first_dirty_offset)
    assert len(ends) > 6


@pytest.mark.parametrize("keys", [1, 7, slow(100)])
@pytest.mark.parametrize("injury", ["old format", "marker", "damage"])
def test_any_number_of_ranges_cleans_what_is_not_plain(tmp_path, in_ranges, keys, injury):
    for seed in range(3):
        log = a_log(seed)
        middle = sorted(log)[5]
        log[middle] = {
            "old format": handmade.message(middle, b"key-1", b"old", magic=1, timestamp=BEFORE),
            "marker": marker(middle, handmade.ABORT),
            "damage": handmade.flip(log[middle], len(log[middle]) - 3),
        }[injury]
        in_ranges(keys)
        done = spread_cleaning.clean_spread(InProcessExecutor(), task_of(tmp_path / f"spread-{seed}", log))
        expected = clean_log(task_of(tmp_path / f"one-{seed}", log))
        assert done.damage == expected.damage
        assert files_of(tmp_path / f"spread-{seed}", done) == files_of(tmp_path / f"one-{seed}", expected)


def test_a_newest_record_without_its_bit_is_found_by_the_proof(tmp_path, monkeypatch):
    log = {0: row(0, b"a") + row(1, b"b") + row(2, b"c"), 3: row(3, b"a"), 4: row(4, b"z")}
    real = spread_steps.bits_in

    def forgetful(contents, first, end, stays_from):
        bits = real(contents, first, end, stays_from)
        bits.bits[1 - first >> 3] &= 0xFF - (1 << (1 - first & 7)) if first <= 1 else 0xFF
        return bits

    monkeypatch.setattr(spread_steps, "bits_in", forgetful)
    done = spread_cleaning.clean_spread(InProcessExecutor(), task_of(tmp_path, log))
    assert done.unproven == "the record at offset 1 is the newest of its key and is gone"


def test_an_aborted_record_in_a_new_file_refuses_the_round(tmp_path, monkeypatch):
    monkeypatch.setattr(spread_plan, "aborted_of", lambda lake, log: Aborted.of([(1, 2)]))
    log = {0: row(0, b"a") + row(1, b"b"), 2: row(2, b"a"), 3: row(3, b"z")}
    done = spread_cleaning.clean_spread(InProcessExecutor(), task_of(tmp_path, log))
    assert done.unproven == "offset 1 belongs to an aborted transaction and is still there"


WORDS = {
    "all newest remain": ([(1, 0, False, True), (2, 1, False, False), (2, 2, False, True)], None),
    "a newest one is gone": ([(1, 0, False, True), (2, 1, False, True), (2, 5, False, False)], 5),
    "a tombstone is gone with all of its key": ([(1, 0, False, False), (1, 3, True, False)], None),
    "a tombstone is gone, and an older one remains": ([(1, 0, False, True), (1, 3, True, False)], 3),
    "a tombstone remains": ([(1, 0, False, False), (1, 3, True, True)], None),
}


@pytest.mark.parametrize("name", WORDS)
def test_what_the_proof_calls_lost(name):
    records, lost = WORDS[name]
    blocks = []
    round = SpreadRound("", None, 9, None, None, 1, (0,), 9)  # type: ignore[arg-type]
    for key, offset, is_tombstone, remains in records:
        word = offset << OFFSET_SHIFT | is_tombstone * TOMBSTONE | remains * REMAINS
        one = Hashed(np.array([key], np.uint64), np.array([key], np.uint64), np.array([word], np.int64))
        blocks += [block.content for block in packed_rows([one], 1, None, 0)]
    done = prove_remaining(round, 0, lambda: iter(blocks))
    gone = f"the record at offset {lost} is the newest of its key and is gone"
    assert done == (None if lost is None else CleaningResult(unproven=gone))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("run", [1 << 20, 16])
def test_rows_that_are_not_sent_change_neither_what_remains_nor_the_proof(monkeypatch, seed, run):
    monkeypatch.setattr(packing, "RUN_ROWS", run)
    random = np.random.default_rng(seed)
    keys, offsets = random.integers(0, 12, 200).astype(np.uint64), np.arange(200)
    numbers = np.where(random.random(200) < 0.2, ~offsets, offsets)
    words = offsets << OFFSET_SHIFT | (random.random(200) < 0.3) * TOMBSTONE | (random.random(200) < 0.4) * REMAINS
    round = SpreadRound("", None, 200, None, None, 1, (0,), 200)  # type: ignore[arg-type]
    for step, column, needed in (
        (lambda blocks: list(remaining_offsets(round, 0, blocks)), numbers, needed_offsets),
        (lambda blocks: prove_remaining(round, 0, blocks), words, needed_words),
    ):
        rows = [Hashed(keys[at : at + 8], keys[at : at + 8], column[at : at + 8]) for at in range(0, 200, 8)]
        every, sent = ([block.content for block in packed_rows(rows, 1, None, 0, chosen)] for chosen in (None, needed))
        assert step(partial(iter, sent)) == step(partial(iter, every))
        assert sum(map(len, sent)) < sum(map(len, every))


def test_a_key_with_many_records_is_sent_once_a_run():
    hot = Hashed(np.ones(5_000, np.uint64), np.ones(5_000, np.uint64), np.arange(5_000))
    for needed in (needed_offsets, needed_words):
        (block,) = packed_rows([hot], 1, None, 0, needed)
        assert len(rows_in(block.content)) <= 2


@pytest.mark.parametrize("parts", [1, 2, 5, 64])
@pytest.mark.parametrize("run", [1 << 20, 64])
def test_ranges_hold_every_row_once_in_the_order_of_the_log(monkeypatch, parts, run):
    monkeypatch.setattr(packing, "RUN_ROWS", run)
    random = np.random.default_rng(parts)
    high, low = (random.integers(0, 1 << 63, 1000).astype(np.uint64) * np.uint64(2) for _ in range(2))
    every = [
        Hashed(high[at : at + 130], low[at : at + 130], np.arange(1000)[at : at + 130]) for at in range(0, 1000, 130)
    ]
    found: list[int] = []
    for part in range(parts):
        alone = [row for block in packed_rows(every, parts, part, 0) for row in rows_in(block.content).numbers.tolist()]
        of_all = sorted((b for b in packed_rows(every, parts, None, 0) if b.part == part), key=lambda block: block.at)
        assert alone == [row for block in of_all for row in rows_in(block.content).numbers.tolist()] == sorted(alone)
        assert {int(high[row]) * parts >> 64 for row in alone} <= {part}
        found += alone
    assert sorted(found) == list(range(1000))


@pytest.mark.parametrize("offsets", [[], [100], [100, 109, 163], list(range(100, 164))])
def test_packed_offsets_are_those_that_were_packed(offsets):
    packed = packed_offsets(np.array(offsets, np.int64), 100, 164)
    bits = bits_in([packed, packed_offsets(np.array([163]), 100, 164)], 100, 164, stays_from=170)
    assert bits.has(np.arange(90, 170)).tolist() == [each in {*offsets, 163} for each in range(90, 170)]


def test_bits_are_those_of_the_offsets(tmp_path):
    offsets = [100, 101, 107, 108, 115, 300]
    bits = NewestBits.of_offsets(100, 310, [np.array(offsets[::2]), np.array([], np.int64), np.array(offsets[1::2])])
    assert np.flatnonzero(np.unpackbits(bits.bits, bitorder="little")).tolist() == [each - 100 for each in offsets]
