"""Filters choose what a filter afterwards would choose, and what they leave out is not read."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import logcore
from logcore import Record
from logcore.columns.engines import Engine
from logcore.reading import consumer_log
from logcore.records import record as record_reader
from logcore.segments.scanning import scan
from tests import handmade
from tests.broker_directory import LogDirectory, Partition
from tests.conftest import Sample
from tests.unit.logcore.library.conftest import Findings, T, segment


def kept(records: list[Record], how: dict[str, Any]) -> list[Record]:
    """The same filters, applied to records one by one."""

    def is_wanted(record: Record) -> bool:
        return (
            record.offset >= how.get("start_offset", 0)
            and record.offset < how.get("end_offset", 1 << 62)
            and record.timestamp >= how.get("since", -(1 << 62))
            and record.timestamp < how.get("until", 1 << 62)
            and ("key" not in how or record.key == how["key"])
        )

    return [record for record in records if is_wanted(record)]


@pytest.mark.parametrize(
    "how",
    [
        {"start_offset": 23},
        {"end_offset": 23},
        {"start_offset": 19, "end_offset": 21},
        {"start_offset": 20, "end_offset": 20},
        {"start_offset": 30, "end_offset": 20},
        {"start_offset": 60},
        {"since": T + 1950},
        {"until": T + 1950},
        {"since": T + 1900, "until": T + 2100},
        {"since": T + 2100, "until": T + 1900},
        {"key": b"k3"},
        {"key": b""},
        {"key": b"k3", "start_offset": 10, "since": T + 1500, "until": T + 4000, "end_offset": 50},
    ],
    ids=str,
)
def test_filters_equal_filtering_afterwards(orders: Partition, how: dict[str, Any], engine: Engine) -> None:
    log = logcore.open_partition(orders.path)
    expected = kept(list(log.records()), how)
    assert list(log.records(**how)) == expected
    rows = log.record_batches(["offset", "key"], **how).read_all().to_pylist()
    assert [(row["offset"], row["key"]) for row in rows] == [(record.offset, record.key) for record in expected]


@pytest.mark.parametrize("name", ["codecs-v2-4.3.1", "timestamps-v2-4.4.0", "transactions-4.4.0"])
@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
def test_filters_at_random_on_what_brokers_wrote(
    sample: Callable[[str], Sample], name: str, isolation_level: Any
) -> None:
    draw = random.Random(f"{name} {isolation_level}")
    compared = 0
    for log in logcore.open_log_directory(sample(name).logdir, isolation_level=isolation_level).logs:
        records = list(log.records())
        if not records:
            continue
        times = [record.timestamp for record in records]
        for _ in range(8):
            how: dict[str, Any] = {}
            if draw.random() < 0.6:
                how["start_offset"] = draw.choice(records).offset + draw.randint(0, 1)
            if draw.random() < 0.6:
                how["end_offset"] = draw.choice(records).offset + draw.randint(0, 2)
            if draw.random() < 0.4:
                how["since"] = draw.choice(times) + draw.randint(-1, 1)
            if draw.random() < 0.4:
                how["until"] = draw.choice(times) + draw.randint(-1, 1)
            if draw.random() < 0.3:
                how["key"] = draw.choice(records).key or b""
            expected = kept(records, how)
            compared += len(expected)
            assert list(log.records(**how)) == expected, (log, how)
    assert compared > 400


def test_times_are_also_datetimes_with_a_zone(orders: Partition) -> None:
    log = logcore.open_partition(orders.path)
    since = datetime.fromtimestamp(T / 1000, UTC) + timedelta(milliseconds=1900)
    assert [record.offset for record in log.records(since=since, until=since + timedelta(milliseconds=200))] == [19, 20]
    # A record at the millisecond before is earlier.
    between = since + timedelta(microseconds=1)
    assert [record.offset for record in log.records(since=between, end_offset=21)] == [20]
    assert [record.offset for record in log.records(until=between, start_offset=18)] == [18, 19]
    with pytest.raises(ValueError, match="needs a time zone"):
        log.records(since=datetime(2024, 1, 1))


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"start_offset": -1}, ValueError, "-1 is no offset"),
        ({"end_offset": 1 << 63}, ValueError, "is no offset"),
        ({"since": 1 << 63}, ValueError, "more than 64 bits"),
        ({"key": "text"}, TypeError, "a key is bytes, not str"),
    ],
)
def test_a_filter_that_is_none_is_refused_before_anything_is_read(
    orders: Partition, how: dict[str, Any], error: type[Exception], message: str
) -> None:
    log = logcore.open_partition(orders.path)
    with pytest.raises(error, match=message):
        log.records(**how)
    with pytest.raises(error, match=message):
        log.record_batches(**how)


# What is not wanted is not read.


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the segment files that are opened."""
    names: list[str] = []
    real = consumer_log.segment_bytes

    def watched(log: Any, file: Any) -> Any:
        names.append(Path(file.path).name)
        return real(log, file)

    monkeypatch.setattr(consumer_log, "segment_bytes", watched)
    return names


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Base offsets of the batches whose records are decoded. The reference engine decodes them all in one function."""
    from logcore.columns.decoding import lanes

    monkeypatch.setenv("LOGLAKE_ENGINE", "reference")
    bases: set[int] = set()
    real = record_reader.read_records

    def watched(buf: Any, position: int, header: Any, *more: Any) -> Any:
        bases.add(header.base_offset)
        return real(buf, position, header, *more)

    monkeypatch.setattr(scan, "read_records", watched)
    monkeypatch.setattr(lanes, "read_records", watched)
    return bases


def test_segments_without_a_wanted_offset_are_not_opened(orders: Partition, opened: list[str]) -> None:
    log = logcore.open_partition(orders.path)
    assert len(list(log.records(start_offset=20, end_offset=40))) == 20
    assert opened == ["00000000000000000020.log"]
    opened.clear()
    assert len(list(log.records(start_offset=39))) == 21
    assert opened == ["00000000000000000020.log", "00000000000000000040.log"]
    opened.clear()
    assert list(log.records(start_offset=60)) == []
    assert list(log.records(start_offset=7, end_offset=7)) == []
    assert opened == []


def test_segments_are_opened_when_their_records_are_wanted(orders: Partition, opened: list[str]) -> None:
    records = logcore.open_partition(orders.path).records()
    assert opened == []
    next(records)
    assert opened == ["00000000000000000000.log"]
    reader = logcore.open_partition(orders.path).record_batches()
    assert len(opened) == 1
    reader.read_next_batch()
    assert opened[1:] != []


def test_batches_without_a_wanted_offset_are_not_decoded(orders: Partition, decoded: set[int]) -> None:
    log = logcore.open_partition(orders.path)
    assert len(list(log.records(start_offset=24, end_offset=31))) == 7
    assert decoded == {20, 25, 30}


def test_batches_that_are_too_old_by_their_header_are_not_decoded(orders: Partition, decoded: set[int]) -> None:
    log = logcore.open_partition(orders.path)
    assert [record.offset for record in log.records(since=T + 4999)] == list(range(50, 60))
    assert decoded == {50, 55}


def test_batches_of_aborted_transactions_are_checked_and_give_no_record(
    logdir: LogDirectory, decoded: set[int]
) -> None:
    partition = logdir.partition("orders-0")
    writes = {"attributes": handmade.TRANSACTIONAL, "producer_id": 1, "producer_epoch": 0}
    partition.append(5, base_sequence=0, **writes)
    partition.marker(1, handmade.ABORT)
    partition.append(5, base_sequence=5, **writes)
    partition.marker(1, handmade.COMMIT)
    logdir.high_watermarks(orders_0=12)
    log = logcore.open_partition(partition.path, isolation_level="read_committed")
    assert [record.offset for record in log.records()] == [6, 7, 8, 9, 10]
    # A batch that cannot be decoded may hide the outcome of a transaction, as for `verify`.
    assert decoded == {0, 5, 6, 11}


def test_a_header_with_a_wrong_time_is_trusted_as_by_a_broker(tmp_path: Path, engine: Engine) -> None:
    """`validate` reports such a batch. Batches of older formats, and reads without `since`, use the records' times."""
    lying = handmade.batch([handmade.record(0, timestamp_delta=900)], base_timestamp=1000, max_timestamp=1000)
    content = [lying, handmade.message_v1(1, 1950, b"k", b"v"), handmade.simple_batch(2, [(b"k", b"v")])]
    log = logcore.open_segment(segment(tmp_path / "orders-0", 0, content))
    assert [record.offset for record in log.records(since=1500)] == [1]
    assert [(record.offset, record.timestamp) for record in log.records(until=1940)] == [(0, 1900), (2, 1000)]
    assert "max-timestamp-differs" in [finding.rule for finding in log.validate().findings]


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each read of a file gives."""
    sizes: list[int] = []
    real = os.preadv

    def watched(fd: int, buffers: Any, position: int) -> int:
        sizes.append(real(fd, buffers, position))
        return sizes[-1]

    monkeypatch.setattr(os, "preadv", watched)
    return sizes


def test_a_read_with_an_end_does_not_go_beyond_it(tmp_path: Path, findings: Findings, bytes_read: list[int]) -> None:
    batch = handmade.simple_batch(0, [(b"k", bytes(100_000))])
    content = [at.to_bytes(8, "big") + batch[8:] for at in range(200)]
    content[150] = handmade.flip(content[150], 5000)
    log = logcore.open_segment(segment(tmp_path / "orders-0", 0, content))
    assert sum(1 for _ in log.records(end_offset=5)) == 5
    assert 500_000 < sum(bytes_read) < 5_000_000
    assert sum(1 for _ in log.records(end_offset=150, on_finding=findings)) == 150
    assert findings.rules == []
    with pytest.raises(logcore.DamageFound):
        list(log.records(end_offset=151))
    with pytest.raises(logcore.DamageFound):
        list(log.records())
    assert sum(1 for _ in log.records(on_finding=findings)) == 199
    assert findings.rules == ["corrupt-bytes"]
