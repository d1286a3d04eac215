"""`offsets --before` gives what Kafka 3.9's log gives for version 0 of ListOffsets."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests.broker_directory import LogDirectory
from tests.kafka import distribution
from tests.kafka.storage_oracle import StorageOracle

pytestmark = pytest.mark.kafka

T = 1_700_000_000_000


@pytest.fixture(scope="module")
def kafka() -> Iterator[StorageOracle]:
    try:
        started = StorageOracle("3.9.2")
    except distribution.Unavailable as missing:
        pytest.skip(f"Kafka's storage classes cannot be run here: {missing}")
    with started:
        yield started


@pytest.mark.parametrize("seed", range(12))
def test_offsets_before_any_time_are_those_of_kafka(
    kafka: StorageOracle, tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    chance = random.Random(seed)
    source = LogDirectory(tmp_path / "logs")
    orders = source.partition("orders-0")
    times = sorted(chance.randrange(T, T + 9_000) for _ in range(chance.randint(1, 6)))
    for time in times:
        path = orders.roll()
        orders.append(chance.randint(1, 12))
        os.utime(path, ns=(time * 1_000_000,) * 2)
    if chance.random() < 0.3:  # the active segment is empty
        os.utime(orders.roll(), ns=(times[-1] * 1_000_000,) * 2)
    start = chance.randrange(orders.next_offset) if chance.random() < 0.5 else 0
    source.checkpoint("log-start", orders_0=start)
    source.high_watermarks(orders_0=orders.next_offset)
    asked = ["latest", "earliest", *(f"{time + chance.choice((-1, 0, 1))}ms" for time in times)]
    ours = []
    for at in asked:
        count = str(chance.randint(1, 8))
        assert main(["offsets", "--format", "jsonl", "--at", at, "--before", count, str(source.path)]) == 0
        ours.append((at, count, json.loads(capsys.readouterr().out)["offsets"]))
    special = {"latest": -1, "earliest": -2}
    for at, count, offsets in ours:
        theirs = kafka.ask(
            "offsets_before",
            directory=orders.path,
            at=special[at] if at in special else int(at.removesuffix("ms")),
            count=int(count),
            log_start_offset=start,
            now=T + 1_000_000_000,
        )
        assert offsets == theirs["offsets"], (seed, at, count)
