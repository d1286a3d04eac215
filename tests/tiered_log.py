"""A tiered topic partition, written by hand: leaders that copy their segments, elections, and what is left on a disk.

Leaders cut their segments at different batches. An unclean election takes records away that a leader has copied. The
test remembers what every offset has at the end. Remote segments have the layout of LocalTieredStorage; records of
`__remote_log_metadata` are packed here.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import struct
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from logcore.cli.main import main
from tests import handmade
from tests.broker_directory import TOPIC_ID, LogDirectory

TOPIC, PARTITION = "orders", 0
STARTED, FINISHED, DELETE_STARTED, DELETE_FINISHED = range(4)


@dataclass(frozen=True)
class Batch:
    """A batch of a log: its first offset, its leader epoch, and its values."""

    base: int
    epoch: int
    values: tuple[bytes, ...]

    @property
    def after(self) -> int:
        return self.base + len(self.values)

    @property
    def content(self) -> bytes:
        return handmade.simple_batch(
            self.base,
            [(b"k", value) for value in self.values],
            leader_epoch=self.epoch,
            base_timestamp=1_700_000_000_000,
        )


@dataclass(frozen=True)
class Copied:
    """A remote segment: its UUID in both forms, its offsets (end exclusive), the path of its log file, its batches."""

    uuid: bytes
    text: str
    start: int
    end: int
    log: Path
    batches: tuple[Batch, ...]


@dataclass
class TieredLog:
    """The log of the current leader, and what leaders copied.

    Attributes:
        folder: Gets `logs`, the log directory of the last leader, and `remote`.
        batches: The log, as the current leader has it.
        epoch: Of the current leader.
        copied: What was copied, in order.
        with_metadata: Write `__remote_log_metadata`.
        with_cache: Make the cache of remote indexes, as a tiered broker does when it starts.
    """

    folder: Path
    batches: list[Batch] = field(default_factory=list)
    epoch: int = 0
    copied: list[Copied] = field(default_factory=list)
    with_metadata: bool = True
    with_cache: bool = True
    _events: list[bytes] = field(default_factory=list)

    @property
    def remote(self) -> Path:
        return self.folder / "remote"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def end(self) -> int:
        return self.batches[-1].after if self.batches else 0

    def append(self, *sizes: int) -> None:
        """Append batches with so many records."""
        for size in sizes:
            base = self.end
            values = tuple(b"%d in epoch %d" % (offset, self.epoch) for offset in range(base, base + size))
            self.batches.append(Batch(base, self.epoch, values))

    def elect(self, at: int | None = None) -> None:
        """Elect a new leader. With `at`, unclean: its log ends there."""
        if at is not None:
            self.batches = [each for each in self.batches if each.after <= at]
            assert self.end == at, "an election cuts between two batches"
        self.epoch += 1

    def epochs(self, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
        """Leader epochs of the offsets from start to end, as a broker keeps them: (epoch, start offset)."""
        found: list[tuple[int, int]] = []
        for batch in self.batches:
            if batch.after > start and (end is None or batch.base < end) and (not found or found[-1][0] != batch.epoch):
                found.append((batch.epoch, max(batch.base, start)))
        return found

    def copy(self, start: int, end: int, state: int = FINISHED) -> Copied:
        """Copy a segment of the current leader with these offsets (end exclusive)."""
        uuid = hashlib.sha256(b"%d %d %d" % (start, end, len(self.copied))).digest()[:16]
        text = base64.urlsafe_b64encode(uuid).decode().rstrip("=")
        inside = [each for each in self.batches if start <= each.base < end]
        assert inside[-1].after == end, "a segment ends with a batch"
        folder = self.remote / f"{TOPIC}-{PARTITION}-{TOPIC_ID}"
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / f"{start:020d}-{text}.log"
        content, index = b"", b""
        for number, batch in enumerate(inside):
            if number:
                index += struct.pack(">ii", batch.after - 1 - start, len(content))
            content += batch.content
        log.write_bytes(content)
        log.with_suffix(".index").write_bytes(index)
        log.with_suffix(".timeindex").write_bytes(struct.pack(">qi", 1_700_000_000_000, inside[0].after - 1 - start))
        log.with_suffix(".snapshot").write_bytes(snapshot())
        log.with_suffix(".leader_epoch_checkpoint").write_text(checkpoint(self.epochs(end=end)))
        copied = Copied(uuid, text, start, end, log, tuple(inside))
        self.copied.append(copied)
        self._events.append(self._described(copied, len(content)))
        if state != STARTED:
            self.update(copied, state)
        return copied

    def update(self, copied: Copied, state: int) -> None:
        """Record another state of a segment."""
        fields = struct.pack(">iq", 1, 1_700_000_001_000) + b"\0" + struct.pack(">b", state)
        self._events.append(b"\x01\x01\x00" + _place() + copied.uuid + b"\0" + fields + b"\0")

    def write(
        self,
        local_start: int,
        *,
        bases: Sequence[int] = (),
        log_start: int = 0,
        epochs: bool = True,
        metadata_bases: Sequence[int] = (),
    ) -> None:
        """Write the log directory of the current leader.

        Args:
            local_start: First offset on the disk.
            bases: Where further local segments begin.
            log_start: The log start offset, in the remote tier.
            epochs: Write `leader-epoch-checkpoint`.
            metadata_bases: Where further segments of `__remote_log_metadata` begin.
        """
        directory = LogDirectory(self.logs)
        if self.with_cache:
            (self.logs / "remote-log-index-cache").mkdir(exist_ok=True)
        partition = directory.partition(f"{TOPIC}-{PARTITION}")
        segments = sorted({local_start, *bases})
        for number, base in enumerate(segments):
            after = segments[number + 1] if number + 1 < len(segments) else self.end
            content = b"".join(each.content for each in self.batches if base <= each.base < after)
            (partition.path / f"{base:020d}.log").write_bytes(content)
            (partition.path / f"{base:020d}.index").touch()
            (partition.path / f"{base:020d}.timeindex").touch()
        partition.epochs(self.epochs(log_start))
        if not epochs:
            (partition.path / "leader-epoch-checkpoint").unlink()
        directory.checkpoint("log-start", **{f"{TOPIC}_{PARTITION}": log_start})
        marks = {f"{TOPIC}_{PARTITION}": self.end}
        if self.with_metadata:
            metadata = directory.partition("__remote_log_metadata-0", "DDDDDDDDDDDDDDDDDDDDDA")
            values = [(None, event) for event in self._events]
            for base, after in pairwise([0, *metadata_bases, len(values)]):
                content = handmade.simple_batch(base, values[base:after]) if base < after else b""
                (metadata.path / f"{base:020d}.log").write_bytes(content)
            marks["__remote_log_metadata_0"] = len(values)
        directory.high_watermarks(**marks)

    def expected(self, start: int) -> list[tuple[int, str]]:
        """Offsets and values of the log from an offset on."""
        rows = [(each.base + at, value.decode()) for each in self.batches for at, value in enumerate(each.values)]
        return [row for row in rows if row[0] >= start]

    def _described(self, copied: Copied, size: int) -> bytes:
        epochs = self.epochs(copied.start, copied.end)
        packed = bytes([len(epochs) + 1]) + b"".join(struct.pack(">iq", *entry) + b"\0" for entry in epochs)
        return (
            b"\x01\x00\x00" + _place() + copied.uuid + b"\0"
            + struct.pack(">qqiqq", copied.start, copied.end - 1, 1, 1_700_000_000_000, 1_700_000_000_500)
            + packed + struct.pack(">i", size) + b"\0" + struct.pack(">b", STARTED) + b"\0"
        )  # fmt: skip


@dataclass(frozen=True)
class Said:
    """What a command said: exit code, lines of stdout as JSON, and stderr."""

    code: int
    lines: list[dict[str, object]]
    errors: str

    @property
    def rows(self) -> list[tuple[object, object]]:
        """Offsets and values, of `dump`."""
        values = [base64.b64decode(str(line["value"])).decode() for line in self.lines]
        return [(line["offset"], value) for line, value in zip(self.lines, values, strict=True)]

    @property
    def ranges(self) -> list[tuple[object, object, object]]:
        """State and offsets, of `ledger`."""
        return [(line["state"], line["start_offset"], line["end_offset"]) for line in self.lines]


def run(command: str, log: TieredLog, *more: str, remotes: Sequence[Path | str] | None = None) -> Said:
    """Run a command on the log with its remote storage."""
    named = [log.remote] if remotes is None else remotes
    out, errors = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    words = [command, str(log.logs), *(word for each in named for word in ("--remote", str(each))), "--format", "jsonl"]
    with redirect_stdout(out), redirect_stderr(errors):
        code = main([*words, *more])
    out.seek(0)
    return Said(code, [json.loads(line) for line in out], errors.getvalue())


def snapshot() -> bytes:
    """A producer snapshot without producers."""
    entries = struct.pack(">i", 0)
    return struct.pack(">hI", 1, handmade.crc32c(entries)) + entries


def checkpoint(epochs: Sequence[tuple[int, int]]) -> str:
    """The text of a leader-epoch-checkpoint."""
    return "\n".join(["0", str(len(epochs)), *(f"{epoch} {start}" for epoch, start in epochs)]) + "\n"


def _place() -> bytes:
    topic_id = base64.urlsafe_b64decode(TOPIC_ID + "==")
    return bytes([len(TOPIC) + 1]) + TOPIC.encode() + topic_id + struct.pack(">i", PARTITION) + b"\0"
