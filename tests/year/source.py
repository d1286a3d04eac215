"""A broker's log directory that lives for a year: topics come and go, and the broker deletes its old segments."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests import handmade
from tests.broker_directory import LogDirectory, topic_id_of

Row = tuple[bytes | None, bytes | None]
DAY_MS = 86_400_000
KEPT_DAYS = 10
"""How long the broker keeps a segment."""
RECORDS = 40
"""Of each partition on each day."""


@dataclass
class Partition:
    """A log, and all that was ever written to it: the model's memory."""

    path: Path
    next_offset: int = 0
    start: int = 0
    rows: dict[int, Row] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)
    """Timestamp by offset, epoch milliseconds."""
    segments: list[tuple[Path, int]] = field(default_factory=list)
    """With the time of the last record."""

    def append(self, now_ms: int, rows: list[Row]) -> None:
        """Write one batch to the active segment."""
        path, _ = self.segments[-1]
        with path.open("ab") as file:
            file.write(handmade.simple_batch(self.next_offset, rows, base_timestamp=now_ms, leader_epoch=0))
        self.segments[-1] = (path, now_ms)
        for row in rows:
            self.rows[self.next_offset], self.times[self.next_offset] = row, now_ms
            self.next_offset += 1

    def expired_below(self, oldest_ms: int) -> int:
        """The offset of the first row that is not older."""
        return next((at for at, time_ms in self.times.items() if time_ms >= oldest_ms), self.next_offset)

    def roll(self, now_ms: int) -> None:
        """Begin a segment, and delete those that are too old, but for the active one."""
        path = self.path / f"{self.next_offset:020d}.log"
        path.touch()
        self.segments.append((path, now_ms))
        while len(self.segments) > 1 and self.segments[0][1] < now_ms - KEPT_DAYS * DAY_MS:
            self.segments.pop(0)[0].unlink()
            self.start = int(self.segments[0][0].stem)


class Source:
    """The directory. Whatever it does is drawn from one random source."""

    def __init__(self, path: Path, random: Random) -> None:
        self.directory = LogDirectory(path)
        self.path = path
        self._random = random
        self._made = 0
        self.partitions: dict[str, Partition] = {}
        self.gone: dict[str, Partition] = {}
        """Logs of topics that were deleted."""
        for _ in range(3):
            self.create()

    def create(self) -> str:
        """A topic of two partitions; every third one is for compaction."""
        topic = f"{'users' if self._made % 3 == 2 else 'events'}{self._made}"
        self._made += 1
        for number in range(2):
            path = self.path / f"{topic}-{number}"
            path.mkdir()
            (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id_of(path.name)}")
            (path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
            self.partitions[path.name] = Partition(path)
        return topic

    def delete(self) -> str | None:
        """Delete the oldest topic, if others remain."""
        topics = list(dict.fromkeys(name.rpartition("-")[0] for name in self.partitions))
        if len(topics) < 3:
            return None
        for name in [name for name in self.partitions if name.rpartition("-")[0] == topics[0]]:
            self.gone[name] = self.partitions.pop(name)
            shutil.rmtree(self.gone[name].path)
        return topics[0]

    def day(self, now_ms: int) -> None:
        """Begin a segment in each log."""
        for each in self.partitions.values():
            each.roll(now_ms)

    def hour(self, now_ms: int, records: int) -> None:
        """Write to each log, and the checkpoints of the broker."""
        for each in self.partitions.values():
            rows: list[Row] = []
            for at in range(records):
                key = b"k%d" % self._random.randrange(20)
                is_tombstone = "users" in each.path.name and self._random.random() < 0.1
                rows.append((key, None if is_tombstone else b"v%d" % (each.next_offset + at)))
            each.append(now_ms, rows)
        self._checkpoint("replication", {name: each.next_offset for name, each in self.partitions.items()})
        self._checkpoint("log-start", {name: each.start for name, each in self.partitions.items()})

    def _checkpoint(self, name: str, offsets: dict[str, int]) -> None:
        lines = [f"{log.rpartition('-')[0]} {log.rpartition('-')[2]} {offset}" for log, offset in offsets.items()]
        text = "\n".join(["0", str(len(lines)), *lines]) + "\n"
        (self.path / f"{name}-offset-checkpoint").write_text(text)
