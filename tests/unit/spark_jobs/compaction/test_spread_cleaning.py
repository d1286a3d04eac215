"""One log cleaned by many tasks, here without a cluster: the bytes of one task, also where transactions and damage
meet."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.model.topic_config import TopicConfig
from logcore.records.record import read_records
from logcore.segments.scanning.scan import ScannedBatch, SegmentScan
from spark_jobs.compaction import spread_cleaning
from spark_jobs.compaction.log_cleaning import CleaningResult, CleaningTask, clean_log
from spark_jobs.compaction.newest_by_key import Aborted
from spark_jobs.lake.segments.archive import Segment
from tests import handmade
from tests.in_process import InProcessExecutor

NOW = 1_700_000_000_000
BEFORE = NOW - 100_000_000
TRANSACTIONAL = {"attributes": handmade.TRANSACTIONAL, "producer_id": 1, "producer_epoch": 0}
Log = dict[int, bytes]
"""Content of each segment by its base offset."""


def row(offset: int, key: bytes | None, **fields: int) -> bytes:
    return handmade.simple_batch(offset, [(key, b"v%d" % offset)], base_timestamp=BEFORE, **fields)


def data(offset: int, key: bytes | None) -> bytes:
    return row(offset, key, base_sequence=offset, **TRANSACTIONAL)


def marker(offset: int, kind: int) -> bytes:
    return handmade.marker(offset, kind, producer_id=1, base_timestamp=BEFORE)


def damaged(batch: bytes) -> bytes:
    return handmade.flip(batch, len(batch) - 3)


def archived(lake: Path, log: Log, transaction_indexes: dict[int, bytes]) -> tuple[Segment, ...]:
    """Its segments as files of the archive; those with a transaction index as files that cleaning wrote."""
    bases = sorted(log)
    segments = []
    for base, behind in zip(bases, [*bases[1:], bases[-1] + 1], strict=True):
        folder = lake / "archive" / "orders" / str(base)
        folder.mkdir(parents=True)
        index = transaction_indexes.get(base)
        contents = {"log": log[base]}
        if index is not None:
            contents |= {"index": b"", "timeindex": b"", "txnindex": index}
        for suffix, content in contents.items():
            (folder / f"{base:020d}.{suffix}").write_bytes(content)
        segments.append(
            Segment(
                segment_id=f"segment-{base}",
                log="orders",
                topic="orders",
                log_id="orders",
                partition=0,
                base_offset=base,
                next_offset=behind,
                path=f"archive/orders/{base}/{base:020d}.log",
                start=0,
                size=len(log[base]),
                sealed=True,
                digest=hashlib.sha256(log[base]).hexdigest(),
                modified_ms=BEFORE,
                max_timestamp=BEFORE,
                generation=0 if index is None else 1,
                origin_file=f"{base:020d}.log",
                origin_position=0,
                origin_base_offset=base,
                last_batch_base_offset=None,
                last_batch_epoch=None,
                last_batch_crc=None,
                last_batch_size=None,
                last_batch_end=None,
                retired_ms=None,
                replaced_by=None,
            )
        )
    return tuple(segments)


@pytest.fixture(params=["one task", "many tasks"])
def result_of(request, tmp_path) -> Callable[..., CleaningResult]:
    """Cleans a log."""

    def clean(
        log: Log,
        *,
        first_dirty: int | None = None,
        indexes: dict[int, bytes] | None = None,
        map_bytes: int | None = None,
    ) -> CleaningResult:
        end = max(log) + 1
        task = CleaningTask(
            lake=str(tmp_path),
            segments=archived(tmp_path, log, indexes or {}),
            config=TopicConfig(
                cleanup_policy=("compact",),
                segment_bytes=1,
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
        if request.param == "one task":
            return clean_log(task)
        return spread_cleaning.clean_spread(InProcessExecutor(), task)

    return clean


@pytest.fixture
def changed(result_of, tmp_path) -> Callable[..., Log]:
    """Cleans a log; gives the segments that others took the place of, as they are now."""

    def clean(log: Log, **options: Any) -> Log:
        done = result_of(log, **options)
        assert (done.refusal, done.unproven) == (None, None)
        new = [each.segment for each in done.replaced]
        return {segment.base_offset: (tmp_path / segment.path).read_bytes() for segment in new}

    return clean


def left_of(done: CleaningResult, lake: Path) -> dict[int, list[int]]:
    """Offsets of the records in each new segment."""
    left: dict[int, list[int]] = {}
    for segment in (each.segment for each in done.replaced):
        content = (lake / segment.path).read_bytes()
        batches = [
            each
            for each in SegmentScan(content, base_offset=segment.base_offset, sealed=True)
            if isinstance(each, ScannedBatch)
        ]
        left[segment.base_offset] = [
            record.offset for each in batches for record in read_records(content, each.position, each.header)
        ]
    return left


def test_after_damage_an_aborted_record_leaves_for_a_newer_one_of_its_key(changed):
    aborted = [data(2, b"k"), marker(3, handmade.ABORT), row(4, b"y")]
    log = {0: row(0, b"a"), 1: damaged(row(1, b"b")), 2: b"".join(aborted), 5: row(5, b"k"), 6: row(6, b"z")}
    assert changed(log) == {2: b"".join(aborted[1:])}


def test_an_abort_that_lies_in_damage_takes_nothing_of_its_producer_s_next_transaction_out_of_the_map(changed):
    hidden = damaged(data(2, b"x")) + damaged(marker(3, handmade.ABORT))
    log = {
        0: row(0, b"a") + row(1, b"c"),
        2: hidden + row(4, b"y"),
        5: data(5, b"a") + marker(6, handmade.COMMIT),
        7: row(7, b"z"),
    }
    entry = struct.pack(">hqqqq", 0, 1, 2, 3, 4)
    assert changed(log, indexes={2: entry}) == {0: row(1, b"c")}


@pytest.mark.parametrize("ends_at", [6, 8])
def test_the_map_begins_inside_of_a_segment_and_does_not_see_the_marker_in_front(changed, ends_at):
    """As in a broker: what the producer commits then is not in it, until another of its transactions was aborted."""
    first = [data(0, None), marker(1, handmade.ABORT), row(2, b"a"), row(3, b"c"), row(4, b"b"), row(5, b"d")]
    rest = [data(6, b"a"), marker(7, handmade.COMMIT)]
    if ends_at == 6:
        log = {0: b"".join(first), 6: b"".join(rest), 8: row(8, b"z")}
    else:
        log = {0: b"".join([*first, *rest]), 8: row(8, b"z")}
    assert changed(log, first_dirty=4) == {0: b"".join(first[1:] + (rest if ends_at == 8 else []))}


def test_aborted_records_take_no_room_in_a_map_of_two_keys(result_of, tmp_path, monkeypatch):
    """The map is full at offset 4. The record at 6 is refused, although its key is in the map."""
    for module in ("log_cleaning", "spread_plan"):
        monkeypatch.setattr(f"spark_jobs.compaction.{module}.aborted_of", lambda lake, log: Aborted.of([(0, 2)]))
    log = {
        0: data(0, b"x") + data(1, b"y") + marker(2, handmade.ABORT),
        3: row(3, b"a") + row(4, b"b"),
        5: row(5, None) + row(6, b"a") + row(7, b"c"),
        8: row(8, b"z"),
    }
    done = result_of(log, map_bytes=24 * 3)
    assert (done.refusal, done.unproven, done.map_was_full, done.first_dirty_offset) == (None, None, True, 6)
    assert left_of(done, tmp_path) == {0: [2], 5: [6, 7]}


def test_messages_of_an_old_format_fill_a_map_too(result_of, tmp_path):
    """The map is full at offset 2, and ends there."""

    def old(offset: int, key: bytes) -> bytes:
        return handmade.message(offset, key, b"old", magic=1, timestamp=BEFORE)

    log = {0: old(0, b"a") + old(1, b"a"), 2: old(2, b"b") + old(3, b"b") + old(4, b"a"), 5: row(5, b"z")}
    done = result_of(log, map_bytes=24 * 3)
    assert (done.refusal, done.unproven, done.map_was_full, done.first_dirty_offset) == (None, None, True, 3)
    assert left_of(done, tmp_path) == {0: [1], 2: [2, 3, 4]}


def test_an_aborted_record_in_a_segment_that_stays_as_it_is_refuses_the_round(result_of, monkeypatch):
    """The ledger knows of it, the log does not."""
    for module in ("log_cleaning", "spread_plan"):
        monkeypatch.setattr(f"spark_jobs.compaction.{module}.aborted_of", lambda lake, log: Aborted.of([(0, 1)]))
    done = result_of({0: row(0, b"a"), 1: row(1, b"z")})
    assert done.unproven == "offset 0 belongs to an aborted transaction and is still there"
