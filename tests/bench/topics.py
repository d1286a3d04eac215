"""The topics that publishing is measured with: written by a real producer through a real broker, once a machine.

They are kept in ``$LOGLAKE_HOME/bench``, in a folder for each recipe (a digest of the producer and of Kafka's version)
and size. The broker's own log directory lies beside a copy, taken after a clean stop, which is what our jobs read: the
segments are the very files (links to them), everything else is as it was then.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.bench.corpora import MIB, home
from tests.kafka import distribution
from tests.kafka.broker import Broker

PARTITIONS = 4
_PRODUCE_SECONDS = 1800
# What tests set smaller, as Kafka has it: a topic's partition is then one segment, and nothing waits for threads.
_SETTINGS = {"log.index.size.max.bytes": "10485760", "num.network.threads": "3", "num.io.threads": "8"}


@dataclass(frozen=True, slots=True)
class Topic:
    """What a producer wrote; `payload_bytes` are those of keys and values."""

    name: str
    codec: str
    shape: str
    records: int = 0
    payload_bytes: int = 0
    segment_bytes: int = 0

    @property
    def offset_sum(self) -> int:
        """Of all records: every partition has as many, from 0 on."""
        each = self.records // PARTITIONS
        return PARTITIONS * (each * (each - 1) // 2)


TOPICS = (
    Topic("small-none", "none", "small"),
    Topic("small-lz4", "lz4", "small"),
    Topic("medium-zstd", "zstd", "medium"),
)


@dataclass(frozen=True, slots=True)
class Topics:
    """All topics of one size."""

    folder: Path
    topics: tuple[Topic, ...]

    @property
    def source(self) -> Path:
        """The log directory as a clean stop left it; nothing writes there any more."""
        return self.folder / "source"

    def named(self, name: str) -> Topic:
        """The topic of that name."""
        return next(topic for topic in self.topics if topic.name == name)

    def broker(self) -> Broker:
        """A running broker that serves them.

        :raises distribution.Unavailable: Kafka cannot be run here.
        """
        return Broker(self.folder / "broker", timed=True, **_SETTINGS)


def topics(mib: int) -> Topics:
    """The topics with at least so many MiB of keys and values each; they are produced if they are not there yet.

    :raises distribution.Unavailable: Kafka cannot be run here.
    """
    recipe = hashlib.sha256((distribution.SOURCES / "ProduceMany.java").read_bytes())
    recipe.update(json.dumps([distribution.VERSION, PARTITIONS, _SETTINGS]).encode())
    folder = home() / f"topics-{recipe.hexdigest()[:12]}-{mib}mib"
    facts = folder / "topics.json"
    if not facts.is_file():
        shutil.rmtree(folder, ignore_errors=True)
        _produce(folder, mib, facts)
    return Topics(folder, tuple(Topic(**topic) for topic in json.loads(facts.read_text())))


def _produce(folder: Path, mib: int, facts: Path) -> None:
    made = Topics(folder, TOPICS)
    said = {}
    with made.broker() as broker:
        for topic in TOPICS:
            arguments = (topic.name, topic.codec, topic.shape, str(PARTITIONS), str(mib * MIB))
            said[topic.name] = json.loads(broker.run("ProduceMany", *arguments, seconds=_PRODUCE_SECONDS))
        data = broker.log_dir
    shutil.copytree(data, made.source, copy_function=_copied)
    found = [
        {
            "name": topic.name,
            "codec": topic.codec,
            "shape": topic.shape,
            **said[topic.name],
            "segment_bytes": sum(path.stat().st_size for path in made.source.glob(f"{topic.name}-[0-9]/*.log")),
        }
        for topic in TOPICS
    ]
    unfinished = facts.with_suffix(".tmp")
    unfinished.write_text(json.dumps(found))
    unfinished.replace(facts)


def _copied(source: str, target: str) -> str:
    """Segments stay as they are and are large; the other files a broker writes into again."""
    if source.endswith(".log"):
        os.link(source, target)
        return target
    return shutil.copy2(source, target)
