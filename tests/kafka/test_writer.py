"""Random append calls become the same files through Kafka's own log and through ours, also over several restarts.

Small segments, small indexes, calls of several batches, gaps and leaps of offsets, clocks that run apart, records
without a time, old formats, interleaved transactions, changing leaders. The files are compared as bytes after every
stop; a snapshot's order too, unless producers may have been met in one call: how Kafka orders those is its own affair.
"""

from __future__ import annotations

import base64
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.model.partition_directory import PartitionDirectory
from logcore.logs.model.topic_config import topic_config
from logcore.logs.writer.writer import LogWriter
from logcore.segments.filenames import TopicPartition
from tests import handmade
from tests.kafka import distribution
from tests.kafka.storage_oracle import StorageOracle

LINES = {"3.9.2": BrokerLine.V3_9, "4.1.2": BrokerLine.V4_0, "4.4.0": BrokerLine.V4_4}
LOGS = int(os.environ.get("LOGLAKE_TEST_WRITTEN_LOGS", "40"))
SEED = int(os.environ.get("LOGLAKE_TEST_WRITTEN_SEED", "1"))
T = 1_700_000_000_000


@dataclass
class Chance:
    """A log that grows at random; what it draws is legal for a follower."""

    draw: random.Random
    offset: int = 0
    epoch: int = 0
    clock: int = T
    has_old: bool = False
    has_room: bool = False
    open: set[int] = field(default_factory=set)

    def config(self) -> dict[str, str]:
        draw = self.draw
        room = draw.choice([50, 100, 1000])
        self.has_room = room == 1000
        return {
            "segment.bytes": str(draw.choice([700, 1500, 4000])),
            "segment.ms": str(draw.choice([1_000, 60_000, 604_800_000])),
            "segment.index.bytes": str(room),
            "index.interval.bytes": str(draw.choice([0, 100, 300, 4096])),
            "cleanup.policy": draw.choice(["delete", "compact", "compact,delete"]),
            "max.compaction.lag.ms": str(draw.choice([500, 2**63 - 1])),
        }

    def calls(self) -> Iterator[tuple[int, int, bytes]]:
        """Clock, leader epoch and bytes of each append call."""
        for _ in range(self.draw.randint(1, 25)):
            self.clock += self.draw.choice([0, 1, 100, 2_000, 90_000])
            if self.draw.randrange(8) == 0:
                self.epoch += self.draw.randint(1, 3)
            if self.draw.randrange(5) == 0:
                self.offset += self.draw.choice([1, 5, 2**31 - 3, 2**31 + 9])
            # a call that overfills an index, or spans too many offsets, is thrown back by Kafka, half of it written
            count = self.draw.choice([1, 1, 1, 2, 3]) if self.has_room else 1
            data = b"".join(self.batch() for _ in range(count))
            yield self.clock, self.epoch, data

    def batch(self) -> bytes:
        draw = self.draw
        first, timestamp = self.offset, draw.choice([-1, self.clock, self.clock - draw.randint(0, 5_000), T])
        if self.has_old and draw.randrange(3) == 0:
            self.offset += 1
            magic = draw.choice([0, 1])
            return handmade.message(first, b"k", b"v" * draw.randint(0, 40), magic=magic, timestamp=timestamp)
        producer = draw.choice([-1, 3, 19, 35, 4_000_000_000])
        if producer in self.open and draw.randrange(2):
            self.open.discard(producer)
            return self.marker(producer, timestamp)
        if producer not in self.open and draw.randrange(10) == 0 and producer >= 0:
            return self.marker(producer, timestamp)
        count = draw.choice([1, 1, 2, 5])
        self.offset += count
        fields: dict[str, int] = {}
        if producer >= 0:
            fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": draw.randint(0, 9)}
            if producer in self.open or draw.randrange(2):
                self.open.add(producer)
                fields["attributes"] = handmade.TRANSACTIONAL
        rows = [handmade.record(n, b"k", b"v" * draw.randint(0, 40)) for n in range(count)]
        fields |= {"base_timestamp": timestamp, "last_offset_delta": count - 1, "leader_epoch": self.epoch}
        return handmade.batch(rows, base_offset=first, **fields)

    def marker(self, producer: int, timestamp: int) -> bytes:
        self.offset += 1
        return handmade.marker(
            self.offset - 1,
            self.draw.choice([handmade.ABORT, handmade.COMMIT]),
            producer_id=producer,
            base_timestamp=max(timestamp, 0),
            coordinator_epoch=self.draw.randint(0, 3),
            leader_epoch=self.epoch,
        )


def files(directory: PartitionDirectory) -> dict[str, bytes]:
    return {name: bytes(file.content) for name, file in directory.files.items()}


def entries(content: bytes) -> tuple[bytes, frozenset[bytes]]:
    """Version and count of a snapshot, and its entries without an order."""
    return content[:2] + content[6:10], frozenset(content[at : at + 46] for at in range(10, len(content), 46))


def alike(name: str, one: bytes | None, other: bytes | None, *, exactly: bool) -> bool:
    if exactly or one is None or other is None or not name.endswith(".snapshot"):
        return one == other
    return entries(one) == entries(other)


def answer_of(kafka: StorageOracle, path: Path, config: dict[str, str], now: int, calls: list[dict[str, Any]]) -> Any:
    return kafka.ask("write", directory=path, now=now, config=config, appends=calls)


def written_alike(kafka: StorageOracle, line: BrokerLine, path: Path, number: int) -> tuple[int, set[str]]:
    """How many files were compared, and why segments were begun."""
    chance = Chance(random.Random(f"{SEED} {number}"))
    chance.has_old = number % 4 == 3
    config = chance.config()
    writer = LogWriter(TopicPartition("t", 0), topic_config(config), line, as_of_ms=chance.clock)
    compared = 0
    for run in range(chance.draw.randint(1, 3)):
        began = chance.clock
        if run:
            writer.restart(began)
        calls = []
        for clock, epoch, data in chance.calls():
            calls.append({"now": clock, "batches": base64.b64encode(data).decode(), "leader_epoch": epoch})
            writer.append(data, clock)
        state = answer_of(kafka, path, config, began, calls)
        closed = writer.close(chance.clock)
        there = {file.name: file.read_bytes() for file in path.iterdir() if file.name != "partition.metadata"}
        ours = files(closed)
        exactly = not chance.has_room
        different = {n for n in {*ours, *there} if not alike(n, ours.get(n), there.get(n), exactly=exactly)}
        assert different == set(), (number, run, config)
        assert tuple(state["base_offsets"]) == writer.base_offsets
        assert state["log_end_offset"] == writer.log_end_offset
        compared += len(there)
        chance.clock += chance.draw.choice([0, 1_000, 90_000_000])
    return compared, {str(roll.reason) for roll in writer.rolls}


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.parametrize("version", LINES)
def test_random_logs_are_written_as_kafka_writes_them(tmp_path: Path, version: str) -> None:
    try:
        kafka = StorageOracle(version)
    except distribution.Unavailable as missing:
        pytest.skip(f"Kafka cannot be run here: {missing}")
    compared, reasons = 0, set()
    with kafka:
        for number in range(LOGS):
            count, why = written_alike(kafka, LINES[version], tmp_path / f"{number}" / "t-0", number)
            compared += count
            reasons |= why
    print(f"{version}: {LOGS} logs, {compared} files; rolled for {sorted(reasons)}")
    assert len(reasons) == 5 or LOGS < 40
