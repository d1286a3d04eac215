"""A read that begins outside of a log is out of range, and `offset_reset` says what happens then, as for a consumer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import logcore
from tests import handmade
from tests.broker_directory import LogDirectory, Partition

Read = Callable[..., list[int]]


@pytest.fixture
def trimmed(logdir: LogDirectory, orders: Partition) -> Partition:
    """`orders-0` from offset 20 to 60, of which 50 to 60 are not committed."""
    orders.segments()[0].unlink()
    logdir.checkpoint("log-start", orders_0=20)
    logdir.high_watermarks(orders_0=50)
    return orders


def offsets(values: Iterable[Any]) -> list[int]:
    return [each.offset for each in values]


READS: dict[str, Callable[[logcore.Log], Read]] = {
    "records": lambda log: lambda **how: offsets(log.records(**how)),
    "record_batches": lambda log: lambda **how: log.record_batches(["offset"], **how).read_all()["offset"].to_pylist(),
    "batches": lambda log: lambda **how: [each.header.base_offset for each in log.batches(**how)],
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(("start", "bound"), [(19, "begins at offset 20"), (0, "begins at"), (61, "ends at offset 60")])
def test_a_start_outside_of_the_log_is_an_error_of_ours(trimmed: Partition, read: str, start: int, bound: str) -> None:
    log = logcore.open_partition(trimmed.path)
    with pytest.raises(logcore.OffsetOutOfRange, match=bound) as caught:
        READS[read](log)(start_offset=start)
    assert (caught.value.offset, caught.value.topic_partition) == (start, "orders-0")


@pytest.mark.parametrize("start", [20, 33, 50, 60])
def test_from_log_start_to_log_end_no_offset_is_out_of_range(trimmed: Partition, start: int) -> None:
    assert offsets(logcore.open_partition(trimmed.path).records(start_offset=start)) == list(range(start, 50))


@pytest.mark.parametrize("start", [3, 61, 1 << 40])
def test_with_a_reset_the_read_begins_at_the_log_start_or_at_the_end(trimmed: Partition, start: int) -> None:
    log = logcore.open_partition(trimmed.path)
    assert offsets(log.records(start_offset=start, offset_reset="earliest")) == list(range(20, 50))
    assert offsets(log.records(start_offset=start, offset_reset="latest")) == []
    assert offsets(log.records(start_offset=33, offset_reset="latest")) == list(range(33, 50))
    bases = [each.header.base_offset for each in log.batches(start_offset=start, offset_reset="latest")]
    assert bases == [50, 55]  # a batch is shown however visible its records are


def test_an_unknown_reset_is_refused(trimmed: Partition) -> None:
    with pytest.raises(ValueError, match="offset_reset is none, earliest, latest"):
        logcore.open_partition(trimmed.path).records(start_offset=20, offset_reset="first")  # type: ignore[arg-type]


def test_with_everything_shown_a_log_begins_at_offset_0(trimmed: Partition) -> None:
    log = logcore.open_partition(trimmed.path, show_all=True)
    assert offsets(log.records(start_offset=0)) == list(range(20, 60))


def test_the_offsets_of_a_log_directory_are_a_filter(trimmed: Partition) -> None:
    directory = logcore.open_log_directory(trimmed.path.parent)
    assert directory.record_batches(["offset"], start_offset=3).read_all()["offset"].to_pylist() == list(range(20, 50))
    assert directory.record_batches(["offset"], start_offset=99).read_all().num_rows == 0


def test_a_read_begins_at_a_proved_index_entry(logdir: LogDirectory, orders: Partition) -> None:
    """The first batch of the segment is damaged. A read that begins later does not see it."""
    path = orders.segments()[1]
    data = bytearray(path.read_bytes())
    size = handmade.size_of(data, 0)
    data[size - 1] ^= 1
    path.write_bytes(data)
    entry = (5).to_bytes(4, "big") + size.to_bytes(4, "big")
    Path(path).with_suffix(".index").write_bytes(entry)
    log = logcore.open_partition(orders.path)
    assert offsets(log.records(start_offset=30)) == list(range(30, 60))
    with pytest.raises(logcore.DamageFound):
        offsets(log.records(start_offset=21))
