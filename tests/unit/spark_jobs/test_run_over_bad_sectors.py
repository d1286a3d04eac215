"""A disk that fails to read some sectors of a sealed segment: what ingest, validate and publish make of its log.

Tasks run in this process, so that a read can fail.
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_left, bisect_right
from itertools import accumulate
from pathlib import Path

import pytest

from spark_jobs import launch
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory, Partition
from tests.in_process import InProcessExecutor
from tests.spark.cycle import Lake

SECTOR = 4096
FAILING = range(2 * SECTOR, 3 * SECTOR)
POLICIES = 'topics: {{"*": {{salvage: {salvage}}}}}\n'


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LogDirectory:
    """`payments-0` of ten records; `orders` adds its log."""
    monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())
    source = LogDirectory(tmp_path / "kafka-logs")
    source.partition("payments-0", OTHER_TOPIC_ID).append(10, per_batch=1)
    source.high_watermarks(orders_0=305, payments_0=10)
    return source


@pytest.fixture
def orders(source: LogDirectory) -> Partition:
    return source.partition("orders-0")


@pytest.fixture
def ends(orders: Partition) -> list[int]:
    """Where the 300 batches of the sealed segment end; the active one has five more."""
    ends = list(accumulate(len(orders.append(1)) for _ in range(300)))
    orders.roll()
    orders.append(5, per_batch=1)
    return ends


@pytest.fixture
def lost(orders: Partition, ends: list[int], monkeypatch: pytest.MonkeyPatch) -> range:
    """Offsets of the batches that touch the sectors; from here on their reads fail."""
    inode = orders.segments()[0].stat().st_ino
    whole = os.pread

    def pread(fd: int, nbytes: int, position: int) -> bytes:
        if os.fstat(fd).st_ino != inode or position >= FAILING.stop or position + nbytes <= FAILING.start:
            return whole(fd, nbytes, position)
        if position < FAILING.start:
            return whole(fd, FAILING.start - position, position)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", pread)
    return range(bisect_right(ends, FAILING.start), bisect_left(ends, FAILING.stop) + 1)


@pytest.mark.parametrize(
    ("salvage", "goes_on"), [("strict", False), ("permissive", True)], ids=["strict", "permissive"]
)
def test_batches_around_bad_sectors_are_validated_and_published_as_the_policy_says(
    source: LogDirectory, lost: range, tmp_path: Path, salvage: str, goes_on: bool
) -> None:
    policies = tmp_path / "policies.yaml"
    policies.write_text(POLICIES.format(salvage=salvage))
    lake = Lake(tmp_path / "lake")
    reports = lake.turn(source.path, policies=str(policies))
    (unreadable,) = [placed for placed in reports["ingest"].findings if placed.finding.rule == "unreadable"]
    assert (unreadable.finding.position, unreadable.finding.nbytes) == (FAILING.start, len(FAILING))
    states = {offset: state for start, end, state in lake.ledger("orders") for offset in range(start, end)}
    assert [offset for offset in range(305) if states[offset] != "present"] == list(lost)
    assert {states[offset] for offset in lost} == {"corrupt"}
    behind = set(range(lost.stop, 305)) if goes_on else set()
    assert set(lake.published("orders")) == set(range(lost.start)) | behind
    assert set(lake.published("payments")) == set(range(10))


def test_every_byte_of_a_segment_with_bad_sectors_is_counted(
    source: LogDirectory, ends: list[int], lost: range, tmp_path: Path
) -> None:
    lake = Lake(tmp_path / "lake")
    lake.turn(source.path)
    (row,) = [row for row in lake.rows("validations") if row["topic"] == "orders" and row["base_offset"] == 0]
    parts = ("valid_bytes", "quarantined_bytes", "tail_bytes", "padding_bytes")
    assert sum(row[name] for name in parts) == row["file_bytes"]
    assert row["file_bytes"] == ends[-1]
    assert row["quarantined_bytes"] == ends[lost.stop - 1] - ends[lost.start - 1]


def test_the_log_goes_on_growing_after_bad_sectors(
    source: LogDirectory, orders: Partition, lost: range, tmp_path: Path
) -> None:
    policies = tmp_path / "policies.yaml"
    policies.write_text(POLICIES.format(salvage="permissive"))
    lake = Lake(tmp_path / "lake")
    lake.turn(source.path, policies=str(policies))
    orders.append(4, per_batch=1)
    source.high_watermarks(orders_0=309, payments_0=10)
    lake.turn(source.path, policies=str(policies))
    assert set(lake.published("orders")) == set(range(309)) - set(lost)
