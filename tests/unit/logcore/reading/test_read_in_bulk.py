"""What kernels read of a log equals what is read record by record, with the same findings."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from logcore.logs.model.sources import SourceLog
from logcore.reading import segment_reading
from logcore.reading.internal_topics.internal_logs import InternalRecord, each_record, internal_records
from logcore.reading.internal_topics.record_blocks import bytes_of, record_blocks
from logcore.reading.read_options import Notes, ReadRules
from logcore.reading.visible_offsets import Window, visible_window
from logcore.storage.discovery import discover
from tests import handmade
from tests.broker_directory import LogDirectory

COMMITTED = ReadRules("read_committed", "log-end")


@pytest.fixture
def in_bulk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_reading, "LEAST_BULK_BYTES", 0)


def some_log(path: Path, chance: random.Random) -> SourceLog:
    """A log of one to three segments with batches of every kind, and damage in some."""
    partition = LogDirectory(path).partition("__consumer_offsets-0")
    offset, producers = 0, {7: 0, 8: 0}
    for _ in range(chance.randint(1, 3)):
        content = b""
        first = offset
        for _ in range(chance.randint(0, 14)):
            offset += chance.choice((0, 0, 0, 3))  # cleaning leaves gaps
            rows = [
                (
                    chance.choice((None, b"", b"k" * chance.randrange(9))),
                    chance.choice((None, b"", chance.randbytes(5))),
                )
                for _ in range(chance.randint(1, 4))
            ]
            producer = chance.choice(list(producers))
            kind = chance.randrange(8)
            if kind == 0:
                batch = handmade.marker(offset, chance.randrange(2), producer_id=producer)
            elif kind in (1, 2):
                sequence, producers[producer] = producers[producer], producers[producer] + len(rows)
                batch = handmade.simple_batch(
                    offset,
                    rows,
                    attributes=handmade.TRANSACTIONAL if kind == 1 else 0,
                    producer_id=producer,
                    producer_epoch=0,
                    base_sequence=sequence,
                )
            elif kind == 3:
                batch = handmade.control_batch(offset, struct.pack(">hh", 0, 2), b"\0\0")
            elif kind == 4 and len(content) == 0 and first == offset:
                batch = handmade.wrapper_v1(range(offset, offset + len(rows)))
            else:
                batch = handmade.simple_batch(offset, rows, base_timestamp=chance.randrange(1 << 40))
            offset += 1 if kind in (0, 3) else len(rows)
            content += batch
        if content and chance.random() < 0.4:
            content = handmade.flip(content, chance.randrange(len(content)), chance.randrange(8))
        if chance.random() < 0.2:
            content = content[: chance.randrange(len(content) + 1)] + bytes(chance.choice((0, 40)))
        (partition.path / f"{first:020d}.log").write_bytes(content)
        offset += first == offset  # a segment needs a base offset of its own
    (log,) = discover([str(partition.path)]).logs
    return log


def findings_of(notes: Notes) -> list[tuple[str, str]]:
    return [(finding.rule, finding.message) for finding in notes.findings]


def read(
    way: Callable[..., object], log: SourceLog, start: int = 0, end: int | None = None
) -> tuple[list[InternalRecord], list[tuple[str, str]]]:
    notes = Notes()
    records = list(way(log, notes, start=start, end=end))  # type: ignore[call-overload]
    return records, findings_of(notes)


def in_blocks(log: SourceLog, notes: Notes, start: int, end: int | None) -> list[InternalRecord]:
    found = []
    for block in record_blocks(log, notes, start, end):
        rows = block.rows
        columns = (
            rows.column("offset").to_pylist(),
            rows.column("timestamp_ms").to_pylist(),
            rows.column("key").to_pylist(),
            rows.column("value").to_pylist(),
            block.is_control.tolist(),
            block.is_transactional.tolist(),
            block.producer_ids.tolist(),
        )
        assert bytes_of(rows.column("key")) == columns[2]
        assert bytes_of(rows.column("value").slice(1)) == columns[3][1:]
        found += [InternalRecord(*row) for row in zip(*columns, strict=True)]
    return found


@pytest.mark.usefixtures("in_bulk")
def test_records_in_blocks_and_their_findings_equal_those_of_single_records(tmp_path: Path) -> None:
    damaged = seen = 0
    for number in range(150):
        log = some_log(tmp_path / str(number), random.Random(number))
        plain = read(each_record, log)
        assert read(in_blocks, log) == plain
        assert read(internal_records, log) == plain
        assert read(in_blocks, log, 3, 9) == read(each_record, log, 3, 9)
        seen += len(plain[0])
        damaged += bool(plain[1])
    assert seen > 2_000
    assert 20 < damaged < 130


def test_the_visible_offsets_are_the_same_by_kernels_and_by_the_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = 0
    for number in range(150):
        log = some_log(tmp_path / str(number), random.Random(1000 + number))
        monkeypatch.setattr(segment_reading, "LEAST_BULK_BYTES", 1 << 40)
        plain: Window = visible_window(log, COMMITTED)
        monkeypatch.setattr(segment_reading, "LEAST_BULK_BYTES", 0)
        assert visible_window(log, COMMITTED) == plain
        hidden += bool(plain.hidden)
    assert hidden > 20


@pytest.mark.usefixtures("in_bulk")
def test_progress_is_the_offset_after_the_last_batch_of_each_segment(tmp_path: Path) -> None:
    partition = LogDirectory(tmp_path).partition("__consumer_offsets-0")
    partition.append(5)
    partition.roll()
    partition.append(3)
    (log,) = discover([str(partition.path)]).logs
    progress: list[int] = []
    assert sum(block.rows.num_rows for block in record_blocks(log, Notes(), progress=progress)) == 8
    assert progress == [5, 8]
    assert list(record_blocks(log, Notes(), 4, 6, visible=(), progress=progress)) == []


def test_small_logs_are_read_without_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = LogDirectory(tmp_path).partition("__consumer_offsets-0")
    partition.append(5)
    (log,) = discover([str(partition.path)]).logs
    assert not segment_reading.is_read_in_bulk(log)
    monkeypatch.setattr(segment_reading, "LEAST_BULK_BYTES", 0)
    assert segment_reading.is_read_in_bulk(log)
    monkeypatch.setenv("LOGLAKE_ENGINE", "reference")
    assert not segment_reading.is_read_in_bulk(log)
