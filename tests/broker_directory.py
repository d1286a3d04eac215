"""A broker's log directory, written by hand for a test: root files as text, segments from `tests.handmade`.

It is changed between runs as a broker changes it: grown, rolled, compacted, trimmed, truncated, deleted and made again.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from tests import handmade

CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
TOPIC_ID = "BBBBBBBBBBBBBBBBBBBBBQ"
OTHER_TOPIC_ID = "CCCCCCCCCCCCCCCCCCCCCw"

Row = tuple[int, bytes | None, bytes | None]


def topic_id_of(name: str) -> str:
    """The id of a partition directory's topic; each topic has its own."""
    topic = re.sub(r"-[0-9]+(\.[0-9a-f]+-[a-z]+)?", "", name)
    own = hashlib.md5(topic.encode()).digest()
    return TOPIC_ID if topic == "orders" else base64.urlsafe_b64encode(own).decode().rstrip("=")


@dataclass
class Partition:
    """One partition directory; `rows` is what was ever appended, by offset, as the test's own memory of it."""

    path: Path
    topic_id: str | None = TOPIC_ID
    next_offset: int = 0
    rows: dict[int, tuple[bytes | None, bytes | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        if self.topic_id:
            (self.path / "partition.metadata").write_text(f"version: 0\ntopic_id: {self.topic_id}")
        self.epochs([(0, 0)])

    def epochs(self, entries: list[tuple[int, int]]) -> None:
        lines = ["0", str(len(entries)), *(f"{epoch} {start}" for epoch, start in entries)]
        (self.path / "leader-epoch-checkpoint").write_text("\n".join(lines) + "\n")

    def segments(self) -> list[Path]:
        return sorted(self.path.glob("*.log"))

    def roll(self, base: int | None = None) -> Path:
        path = self.path / f"{self.next_offset if base is None else base:020d}.log"
        path.touch()
        return path

    def append(self, count: int, per_batch: int = 5, tag: bytes = b"v", **fields: int) -> bytes:
        """Append `count` records in batches to the active segment; returns the bytes."""
        if not self.segments():
            self.roll()
        written = b""
        while count:
            rows = []
            for _ in range(min(per_batch, count)):
                offset = self.next_offset + len(rows)
                rows.append((b"k%d" % (offset % 7), tag + b"%d" % offset))
            written += handmade.simple_batch(
                self.next_offset, rows, base_timestamp=1_700_000_000_000, **({"leader_epoch": 0} | fields)
            )
            for key, value in rows:
                self.rows[self.next_offset] = (key, value)
                self.next_offset += 1
            count -= len(rows)
        self.write(written)
        return written

    def write(self, data: bytes) -> None:
        """Append these bytes unchanged to the active segment."""
        with self.segments()[-1].open("ab") as file:
            file.write(data)

    def truncate(self, offset: int) -> None:
        """Cut the log back to an offset at which a batch ends, as a follower of a new leader does."""
        for path in self.segments():
            data, position = path.read_bytes(), 0
            while position < len(data) and int.from_bytes(data[position : position + 8], "big") < offset:
                position += handmade.size_of(data, position)
            if position < len(data) or int(path.stem) >= offset > 0:
                path.write_bytes(data[:position])
            if not position and path != self.segments()[0]:
                path.unlink()
        self.rows = {at: row for at, row in self.rows.items() if at < offset}
        self.next_offset = offset

    def marker(self, producer_id: int, kind: int) -> None:
        self.write(handmade.marker(self.next_offset, kind, producer_id=producer_id, leader_epoch=0))
        self.next_offset += 1


class LogDirectory:
    """A log directory with its root files; offsets checkpoints follow what the test says."""

    def __init__(self, path: Path, cluster: str | None = CLUSTER) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        if cluster:
            (path / "meta.properties").write_text(f"version=0\ncluster.id={cluster}\nbroker.id=1\n")

    def partition(self, name: str, topic_id: str | None = "") -> Partition:
        """By default the id is that of the topic: TOPIC_ID for `orders`."""
        return Partition(self.path / name, topic_id_of(name) if topic_id == "" else topic_id)

    def checkpoint(self, name: str, **offsets: int) -> None:
        """Write `<name>-offset-checkpoint`; keywords are `topic_partition=offset` with `_` for `-`."""
        entries = [f"{key.rpartition('_')[0]} {key.rpartition('_')[2]} {offset}" for key, offset in offsets.items()]
        (self.path / f"{name}-offset-checkpoint").write_text("\n".join(["0", str(len(entries)), *entries]) + "\n")

    def high_watermarks(self, **offsets: int) -> None:
        self.checkpoint("replication", **offsets)

    def fingerprint(self) -> dict[str, tuple[int, int, bytes]]:
        """Every file with size, mtime and content: a source must come out of a run as it went in."""
        return {
            str(path.relative_to(self.path)): (path.stat().st_size, path.stat().st_mtime_ns, path.read_bytes())
            for path in sorted(self.path.rglob("*"))
            if path.is_file() and os.access(path, os.R_OK)
        }
