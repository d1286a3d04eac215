"""The end of a segment that is still written: a run and `verify` call the same bytes damage, and it ends with them."""

from __future__ import annotations

import random
import struct

import pytest

import logcore
from tests import handmade, sampling
from tests.broker_directory import LogDirectory
from tests.fuzz.injuries import injuries
from tests.spark.cycle import Lake

NEXT = handmade.simple_batch(10, [(b"k", b"v")] * 3, leader_epoch=0)
NOISE = bytes(random.Random(1).randrange(256) for _ in range(80))
TAILS = {
    "torn": NEXT[:-5],
    "zeros": bytes(300),
    "torn, then zeros": NEXT[:40] + bytes(300),
    "noise": NOISE,
    "three bytes": b"\x01\x02\x03",
    "no magic": struct.pack(">qiib", 10, 20, 3, 9) + bytes(range(1, 16)),
    "wrong count": handmade.fix_crc(handmade.patch(NEXT, 57, struct.pack(">i", 7))),
    "noise of two MiB": NOISE * (1 << 15),
}
INJURED = {f"{each.kind} {each.at}": each.data for each in injuries(NEXT)}


@pytest.mark.parametrize("tail", [*TAILS, *sampling.drawn(sorted(INJURED), 8, "tails")])
def test_bytes_that_are_no_write_in_progress_stop_the_log_until_they_are_gone(
    tail: str, source: LogDirectory, lake: Lake
) -> None:
    orders = source.partition("orders-0")
    orders.append(10)
    source.high_watermarks(orders_0=10)
    whole = orders.segments()[0].read_bytes()
    orders.write((TAILS | INJURED)[tail])
    is_damaged = not logcore.open_partition(orders.path).validate().is_sound
    for _ in range(2):
        lake.turn(source.path)
        if lake.ledger("orders")[-1][1] == 10:  # otherwise it was archived, as damage before a good batch
            assert (lake.stopped()["orders-0"] is not None) == is_damaged
        assert sorted(lake.published("orders")) == list(range(10))
    if lake.ledger("orders")[-1][1] > 10:
        return
    orders.segments()[0].write_bytes(whole)
    orders.append(5)
    source.high_watermarks(orders_0=15)
    lake.turn(source.path)
    assert lake.stopped() == {"orders-0": None}
    assert sorted(lake.published("orders")) == list(range(15))
