"""Remote storage of handmade logs: closed segments are moved there, as a broker with tiered storage moves them."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import handmade, remote_objects
from tests.broker_directory import TOPIC_ID, LogDirectory, Partition


@dataclass
class RemoteStorage:
    """A directory with remote segments of one partition.

    Attributes:
        path: The directory.
        partition: The partition of the broker.
        layout: `files` as LocalTieredStorage, or `chunks` as Aiven's plugin.
        is_encrypted: With the key of `tests.remote_objects`, and compressed; for `chunks`.
    """

    path: Path
    partition: Partition
    layout: str = "files"
    is_encrypted: bool = False

    def take(self, source: LogDirectory, count: int) -> list[Path]:
        """Move the oldest local segments here; the log still begins where it began. Returns their `.log` objects."""
        moved = [self.store(log) for log in self.partition.segments()[:count]]
        for log in self.partition.segments()[:count]:
            log.unlink()
        (source.path / "remote-log-index-cache").mkdir(exist_ok=True)
        source.checkpoint("log-start", **{self.partition.path.name.replace("-", "_"): 0})
        return moved

    def logs(self) -> list[Path]:
        """The `.log` objects, by offset."""
        return sorted(self.path.rglob("*.log"))

    def replace(self, scratch: Path) -> Path:
        """Put another segment with the same offsets and sizes in the place of the second; returns its `.log` object."""
        options = {"layout": self.layout, "is_encrypted": self.is_encrypted}
        other = tiered(LogDirectory(scratch / "source"), scratch / "remote", tag=b"w", **options)
        ours, theirs = self.logs()[1], other.logs()[1]
        for part in theirs.parent.glob(f"{theirs.stem}.*"):
            there = ours.with_suffix(part.suffix)
            there.write_bytes(part.read_bytes())
            os.utime(there, (1_750_000_000, 1_750_000_000))
        return ours

    def store(self, log: Path) -> Path:
        """Store a segment of the partition; its name has its first offset. Returns its `.log` object."""
        topic, _, number = self.partition.path.name.rpartition("-")
        topic_id, base = self.partition.topic_id or TOPIC_ID, int(log.stem)
        content = log.read_bytes()
        beside = {
            "offset": b"",
            "timestamp": struct.pack(">qi", -1, 0),
            "producerSnapshot": struct.pack(">hIi", 1, 0, 0),
            "leaderEpoch": (self.partition.path / "leader-epoch-checkpoint").read_bytes(),
        }
        name = f"{log.stem}-{base:021d}A"
        if self.layout == "files":
            folder = self.path / f"{topic}-{number}-{topic_id}"
            folder.mkdir(parents=True, exist_ok=True)
            for kind, each in beside.items():
                (folder / f"{name}{remote_objects.INDEXES[kind]}").write_bytes(each)
            (folder / f"{name}.log").write_bytes(content)
            return folder / f"{name}.log"
        segment = remote_objects.stored_segment(
            content, beside, chunk_size=150, compressed=self.is_encrypted, is_encrypted=self.is_encrypted
        )
        # Without the metadata topic the manifest says which offsets the segment has.
        last = list(batches(content))[-1]
        end = struct.unpack_from(">q", last)[0] + struct.unpack_from(">i", last, 23)[0]
        described = {"startOffset": base, "endOffset": end, "segmentLeaderEpochs": {"0": base}}
        manifest = json.dumps(json.loads(segment.manifest) | {"remoteLogSegmentMetadata": described}).encode()
        folder = self.path / f"{topic}-{topic_id}" / number
        folder.mkdir(parents=True, exist_ok=True)
        for suffix, each in ((".log", segment.log), (".indexes", segment.indexes), (".rsm-manifest", manifest)):
            (folder / f"{name}{suffix}").write_bytes(each)
        return folder / f"{name}.log"


def batches(data: bytes) -> Iterator[bytes]:
    """The batches of a segment."""
    position = 0
    while position < len(data):
        yield data[position : position + handmade.size_of(data, position)]
        position += handmade.size_of(data, position)


def tiered(
    source: LogDirectory, folder: Path, name: str = "orders-0", tag: bytes = b"v", **options: object
) -> RemoteStorage:
    """A log of five segments of ten records, three of which are in remote storage only."""
    partition = source.partition(name)
    for number in range(5):
        if number:
            partition.roll()
        partition.append(10, tag=tag)
    storage = RemoteStorage(folder, partition, **options)  # type: ignore[arg-type]
    storage.take(source, 3)
    source.high_watermarks(**{name.replace("-", "_"): 50})
    return storage
