"""One broker a session, filled with random settings, read by a real consumer, stopped; its files are what is tested."""

from __future__ import annotations

import json
import os
import shutil
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.kafka import distribution
from tests.kafka.broker import Broker

SEEDS = os.environ.get("LOGLAKE_KAFKA_SEEDS", "1 2 3").split()
"""What the topics are named after and their settings follow from; more or others by this variable."""

LEVELS = ("read_uncommitted", "read_committed")

TIMES = (0, 1, 4, 5, 1_699_000_000_000, 1_700_000_000_000, 1_700_000_033_333, 1_700_000_099_999, 1_701_000_000_000)
TIMES += (1_795_000_000_000, 4_102_444_800_000, 4_102_444_800_500, 4_102_444_800_998, 4_102_444_801_000)
"""Milliseconds to ask the broker for: within and around what `Chance` makes, and far from it."""

Lines = dict[tuple[str, int], list[dict[str, Any]]]
"""Lines of JSON by topic and partition."""


@dataclass(frozen=True, slots=True)
class Produced:
    """The files of the broker, and the output of its clients. Shared by all tests: never write into it."""

    log_dir: Path
    """The log directory after a clean stop."""
    running: Path
    """A copy of it, taken while the broker was running: preallocated indexes, empty checkpoints."""
    consumed: dict[str, Lines]
    """By isolation level: what the real consumer received."""
    bounds: dict[str, dict[tuple[str, int], tuple[int, int]]]
    """By isolation level: the consumer's beginning and end offset of every partition."""
    offsets: Lines
    """The broker's answers to ListOffsets at both isolation levels: `earliest`, `latest`, `max-timestamp`, `TIMES`."""
    said: list[str]
    """Settings that `Produce` chose, by the topic they name: for the message of an assertion."""

    def settings(self, topic: str) -> str:
        return "\n".join(line for line in self.said if f'"{topic}"' in line)

    def segments(self) -> list[Path]:
        """Every segment file, of Kafka's own topics too."""
        return sorted(self.log_dir.glob("*/*.log"))


@pytest.fixture(scope="session")
def kafka() -> None:
    """Skips, with the reason, where Kafka cannot be run."""
    try:
        distribution.jdk()  # remembered, so that a test may hide it
        distribution.own_classes()
    except distribution.Unavailable as missing:
        pytest.skip(f"Kafka cannot be run here: {missing}")


@pytest.fixture(scope="session")
def produced(kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Produced:
    folder = tmp_path_factory.mktemp("kafka")
    files = {level: folder / f"{level}.jsonl" for level in LEVELS}
    with Broker(folder / "broker") as broker:
        said = broker.run("Produce", *SEEDS).splitlines()
        broker.run("Consume", *(str(word) for pair in files.items() for word in pair))
        broker.run("ListOffsets", str(folder / "offsets.jsonl"), *map(str, TIMES))
        shutil.copytree(broker.log_dir, folder / "running")
    consumed: dict[str, Lines] = {}
    bounds: dict[str, dict[tuple[str, int], tuple[int, int]]] = {}
    for level, path in files.items():
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        consumed[level] = by_partition(line for line in lines if "topic" in line)
        bounds[level] = {
            (line["partition_of"], line["partition"]): (line["beginning"], line["end"])
            for line in lines
            if "partition_of" in line
        }
    offsets = by_partition(map(json.loads, (folder / "offsets.jsonl").read_text().splitlines()))
    return Produced(broker.log_dir, folder / "running", consumed, bounds, offsets, said)


def by_partition(lines: Iterable[dict[str, Any]]) -> Lines:
    """Lines by the topic partition they name, in their order."""
    found: Lines = defaultdict(list)
    for line in lines:
        found[line["topic"], line["partition"]].append(line)
    return dict(found)
