"""The ledger of a lake says of a gap what `loglake ledger` says of the source, also after growth."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import logcore
from tests import handmade
from tests.broker_directory import LogDirectory
from tests.property.reading.test_commands_agree import a_byte_too_many, after_the_end, with_gaps
from tests.sampling import SEED
from tests.spark.cycle import Lake

THIN = handmade.batch([handmade.record(0), handmade.record(3)], base_offset=8, last_offset_delta=3)
KINDS = {"compacted", "missing", "corrupt"}


def offsets(ranges: Sequence[tuple[int, int, str]], end: int) -> dict[str, set[int]]:
    """Offsets by their state, from the first batch to an end; the ledger of a lake ends at the log's end."""
    first = min((start for start, _, state in ranges if state not in KINDS), default=end)
    found: dict[str, set[int]] = {kind: set() for kind in KINDS}
    for start, after, state in ranges:
        if state in KINDS:
            found[state] |= set(range(max(start, first), min(after, end)))
    return found


def said_of(directory: Path) -> list[tuple[int, int, str]]:
    """The ranges that the library gives, but not the findings about them."""
    ranges = logcore.open_partition(directory).ledger(on_finding=str)
    return [(each.start_offset, each.end_offset, each.state) for each in ranges]


@pytest.mark.parametrize("number", range(4))
def test_the_ledger_of_a_lake_is_that_of_its_source_however_it_grew(
    number: int, source: LogDirectory, tmp_path: Path
) -> None:
    whole = with_gaps(tmp_path / "whole", random.Random(f"{SEED} {number}"))
    one, grown = Lake(tmp_path / "one"), Lake(tmp_path / "grown")
    orders = source.partition("orders-0")
    for segment in sorted(whole.iterdir()):
        shutil.copy2(segment, orders.path)
        ranges = logcore.open_partition(orders.path, high_watermark="log-end").ledger(on_finding=str)
        source.high_watermarks(orders_0=max((each.end_offset for each in ranges), default=0))
        grown.turn(source.path)
    one.turn(source.path)
    end = one.ledger("orders")[-1][1]
    assert offsets(one.ledger("orders"), end) == offsets(said_of(orders.path), end)
    assert offsets(grown.ledger("orders"), end) == offsets(said_of(orders.path), end)
    assert grown.published("orders") == one.published("orders")


@pytest.mark.parametrize("make", [after_the_end, a_byte_too_many])
@pytest.mark.parametrize("number", range(4))
def test_the_ledger_of_a_lake_is_that_of_its_source_after_harm(
    make: Callable[[Path, random.Random], Path], number: int, source: LogDirectory, lake: Lake, tmp_path: Path
) -> None:
    orders = source.partition("orders-0")
    for segment in sorted(make(tmp_path / "harmed", random.Random(f"{SEED} {make.__name__} {number}")).iterdir()):
        shutil.copy2(segment, orders.path)
    ranges = logcore.open_partition(orders.path, high_watermark="log-end").ledger(on_finding=str)
    end = max(each.end_offset for each in ranges)
    source.high_watermarks(orders_0=end)
    lake.turn(source.path)
    assert offsets(lake.ledger("orders"), end) == offsets(said_of(orders.path), end)


def test_a_batch_that_only_cleaning_leaves_explains_the_gaps_before_it_when_it_comes(
    source: LogDirectory, lake: Lake
) -> None:
    orders = source.partition("orders-0")
    transaction = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    orders.append(2, **transaction)
    orders.next_offset = 5
    orders.marker(7, handmade.COMMIT)
    source.high_watermarks(orders_0=6)
    lake.turn(source.path)
    assert (2, 5, "missing") in lake.ledger("orders")
    assert lake.published("orders") == {}
    orders.write(THIN)
    source.high_watermarks(orders_0=12)
    lake.turn(source.path)
    assert lake.ledger("orders") == [
        (0, 2, "present"),
        (2, 5, "compacted"),
        (5, 6, "present"),
        (6, 8, "compacted"),
        (8, 12, "present"),
    ]
    assert sorted(lake.published("orders")) == [0, 1, 8, 11]


def test_a_gap_in_a_topic_that_brokers_always_compact_is_no_loss(source: LogDirectory, lake: Lake) -> None:
    log = source.partition("__consumer_offsets-0")
    log.append(2)
    log.next_offset = 5
    log.append(2)
    source.high_watermarks(__consumer_offsets_0=7)
    lake.turn(source.path)
    assert lake.ledger("__consumer_offsets") == [(0, 2, "present"), (2, 5, "compacted"), (5, 7, "present")]


def test_a_broken_length_at_the_end_of_a_segment_is_damage_once_the_log_goes_on(
    source: LogDirectory, lake: Lake
) -> None:
    orders = source.partition("orders-0")
    orders.append(2)
    broken = bytearray(handmade.simple_batch(2, [(b"k", b"v")] * 3))
    broken[8:12] = (int.from_bytes(broken[8:12], "big") + 65_536).to_bytes(4, "big")
    orders.write(bytes(broken))
    source.high_watermarks(orders_0=2)
    lake.turn(source.path)
    assert lake.ledger("orders") == [(0, 2, "present")]
    orders.roll(8)
    orders.write(THIN)  # it would explain the offsets before it, if these were not in the broken batch
    source.high_watermarks(orders_0=12)
    lake.turn(source.path)
    assert lake.ledger("orders") == [(0, 2, "present"), (2, 8, "corrupt"), (8, 12, "present")]
    assert sorted(lake.published("orders")) == [0, 1]
