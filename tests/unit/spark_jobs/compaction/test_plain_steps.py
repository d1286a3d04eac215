"""A plain log cleaned by many tasks through bits: the bytes of the plain cleaner in one task, and its own proof."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logcore.columns.cleaning.newest_bits import NewestBits
from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.model.topic_config import TopicConfig
from spark_jobs.compaction.aborted_offsets import Aborted
from spark_jobs.compaction.key_hashes import Hashed
from spark_jobs.compaction.log_cleaning import CleaningResult, CleaningTask, clean_log
from spark_jobs.compaction.spread import spread_cleaning, spread_steps
from spark_jobs.compaction.spread.plain_steps import (
    OFFSET_SHIFT,
    REMAINS,
    TOMBSTONE,
    HashRange,
    lost_offset,
    range_writer,
)
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
def only_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps for other logs fail."""

    def fail(*_: object) -> None:
        raise AssertionError("a plain log was cleaned by maps")

    monkeypatch.setattr(spread_cleaning, "_by_maps", fail)


@pytest.fixture
def by_maps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often a log was cleaned by maps."""
    real = spread_cleaning._by_maps
    times: list[int] = []

    def counted(*given: object) -> object:
        times.append(1)
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(spread_cleaning, "_by_maps", counted)
    return times


@pytest.mark.parametrize("rows", [slow(4_000_000), 100, slow(7)])
@pytest.mark.parametrize("first_dirty", [slow(None), 40, slow(83)])
@pytest.mark.parametrize("step", [1, slow(1000)])
def test_bits_leave_the_files_of_the_plain_cleaner(tmp_path, monkeypatch, only_plain, rows, first_dirty, step):
    for seed in range(3):
        log = a_log(seed, step=step)
        task = task_of(tmp_path / f"spread-{seed}", log, first_dirty and first_dirty * step)
        monkeypatch.setattr(spread_cleaning, "MAP_ROWS", rows)
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
@pytest.mark.parametrize("rows", [slow(4_000_000), 7])
@pytest.mark.parametrize("first_dirty", [slow(None), 40, slow(83)])
def test_a_full_map_ends_the_round_of_many_tasks_where_it_ends_that_of_the_plain_cleaner(
    tmp_path, monkeypatch, only_plain, rows, first_dirty
):
    monkeypatch.setattr(spread_cleaning, "MAP_ROWS", rows)
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


def test_a_log_with_an_old_format_is_cleaned_by_maps_after_all(tmp_path, by_maps):
    log = a_log(1)
    middle = sorted(log)[5]
    log[middle] = handmade.message(middle, b"key-1", b"old", magic=1, timestamp=BEFORE)
    done = spread_cleaning.clean_spread(InProcessExecutor(), task_of(tmp_path / "spread", log))
    expected = clean_log(task_of(tmp_path / "one", log))
    assert by_maps == [1]
    assert files_of(tmp_path / "spread", done) == files_of(tmp_path / "one", expected)


def test_a_log_with_a_transaction_is_never_read_as_plain(tmp_path, by_maps, monkeypatch):
    monkeypatch.setattr(spread_cleaning, "write_rows", None)
    log = a_log(2)
    middle = sorted(log)[5]
    log[middle] = marker(middle, handmade.ABORT)
    done = spread_cleaning.clean_spread(InProcessExecutor(), task_of(tmp_path / "spread", log))
    assert by_maps == [1]
    assert files_of(tmp_path / "spread", done) == files_of(tmp_path / "one", clean_log(task_of(tmp_path / "one", log)))


def test_a_newest_record_without_its_bit_is_found_by_the_proof(tmp_path, monkeypatch, only_plain):
    log = {0: row(0, b"a") + row(1, b"b") + row(2, b"c"), 3: row(3, b"a"), 4: row(4, b"z")}
    real = NewestBits.of_offsets

    def forgetful(first, end, found, **more):
        return real(first, end, [offsets[offsets != 1] for offsets in found], **more)

    monkeypatch.setattr(NewestBits, "of_offsets", forgetful)
    done = spread_cleaning.clean_spread(InProcessExecutor(), task_of(tmp_path, log))
    assert done.unproven == "the record at offset 1 is the newest of its key and is gone"


def test_an_aborted_record_in_a_new_file_refuses_the_round(tmp_path, monkeypatch, only_plain):
    monkeypatch.setattr(spread_steps, "aborted_of", lambda lake, log: Aborted.of([(1, 2)]))
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
@pytest.mark.parametrize("rows", [100, 1])
def test_what_the_proof_calls_lost(tmp_path, name, rows):
    records, lost = WORDS[name]
    with range_writer(str(tmp_path), "proof", 0, rows) as file:
        for key, offset, is_tombstone, remains in records:
            word = offset << OFFSET_SHIFT | is_tombstone * TOMBSTONE | remains * REMAINS
            file.add(Hashed(np.array([key], np.uint64), np.array([key], np.uint64), np.array([word], np.int64)))
    assert lost_offset(str(tmp_path), ["proof"], 0, 0, rows) == lost


@pytest.mark.parametrize("bits", [0, 1, 5])
@pytest.mark.parametrize("rows", [1 << 20, 64])
def test_ranges_hold_every_row_once_in_the_order_of_the_log(tmp_path, bits, rows):
    random = np.random.default_rng(bits)
    high, low = (random.integers(0, 1 << 63, 1000).astype(np.uint64) * np.uint64(2) for _ in range(2))
    with range_writer(str(tmp_path), "rows", bits, rows) as file:
        for at in range(0, 1000, 130):
            some = slice(at, at + 130)
            file.add(Hashed(high[some], low[some], np.arange(1000)[some]))
    found: list[int] = []
    for bucket in range(1 << bits):
        of_range = HashRange(str(tmp_path), ["rows"], bucket, bits, rows)
        for number in range(of_range.parts):
            offsets = [offset for some in of_range.part(number) for offset in some.offsets.tolist()]
            assert offsets == sorted(offsets)
            assert {int(high[offset]) >> 64 - bits for offset in offsets} <= {bucket}
            found += offsets
    assert sorted(found) == list(range(1000))


def test_bits_are_those_of_the_offsets(tmp_path):
    offsets = [100, 101, 107, 108, 115, 300]
    bits = NewestBits.of_offsets(100, 310, [np.array(offsets[::2]), np.array([], np.int64), np.array(offsets[1::2])])
    assert np.flatnonzero(np.unpackbits(bits.bits, bitorder="little")).tolist() == [each - 100 for each in offsets]
