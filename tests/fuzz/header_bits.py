"""Logs of known batches, what a consumer gets of them by Kafka's rules, and what two commands make of a flipped bit.

The consumer is written out here, and shares nothing with the library: bodies are known by their bytes, so not even a
record is parsed.

    broker      walks a segment from batch to batch by the length field. A length below 14 is an error; one that runs
                past the file ends the segment, and the next one follows. What ends below the fetch offset is passed
                over
    consumer    refuses a batch whose magic is none of Kafka's, or whose checksum is wrong, and comes no further. Of the
                others it takes the records from the fetch offset up to the high watermark
    checksum    v2: CRC-32C of attributes to end. v0, v1: CRC-32 of magic to end. Base offset, length and (v2) leader
                epoch, magic and the checksum itself lie outside
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from logcore.cli.main import main
from tests import handmade
from tests.fuzz import streams

HEADER_BITS = {0: 18 * 8, 1: 26 * 8, 2: 61 * 8}
"""By format. v0: offset, size, checksum, magic, attributes; v1: the timestamp, too."""
UNCHECKED_BITS = {0: 16 * 8, 1: 16 * 8, 2: 21 * 8}
"""Those in front of what the checksum covers."""

_SMALLEST_LENGTH = 14
_SEGMENTS = (3, 2, 3)
"""Batches of each segment; the last one is active."""
BATCHES = sum(_SEGMENTS)
_TIME = 1_700_000_000_000
_NAME = "orders-0"
_IDEMPOTENT, _PRODUCER = 8, 9
"""Producer ids; the second one writes transactions alone."""


class Row(NamedTuple):
    """A data record: its offset, and its unique content."""

    offset: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Placed:
    """A batch and the data records in it. last_offset: of its header. is_absolute: its records carry offsets of
    their own, under the checksum. aborts: of an abort marker, where its transaction began."""

    data: bytes
    last_offset: int
    rows: tuple[Row, ...]
    is_absolute: bool = False
    aborts: int | None = None

    @property
    def first_offset(self) -> int:
        """The lowest offset that it claims."""
        return self.rows[0].offset if self.data[16] < 2 else _offset_in(self.data)

    @property
    def body(self) -> bytes:
        """What the checksum covers."""
        return self.data[_checked_from(self.data) :]


@dataclass(frozen=True, slots=True)
class Log:
    """Segments by base offset. is_cleaned: gaps in sealed segments are the cleaner's."""

    segments: dict[int, tuple[Placed, ...]]
    high_watermark: int
    is_cleaned: bool
    has_indexes: bool

    @property
    def batches(self) -> tuple[Placed, ...]:
        """All, in their order."""
        return tuple(batch for segment in self.segments.values() for batch in segment)

    def files(self) -> dict[int, bytes]:
        """The segments' bytes."""
        return {base: b"".join(batch.data for batch in batches) for base, batches in self.segments.items()}

    def flipped(self, number: int, bit: int) -> dict[int, bytes]:
        """The same with one bit of one batch turned over; bit 0 is the highest of its first byte."""
        files = {}
        for base, batches in self.segments.items():
            files[base] = b"".join(
                handmade.flip(batch.data, bit // 8, 7 - bit % 8) if batch is self.batches[number] else batch.data
                for batch in batches
            )
        return files

    def write(self, root: Path) -> Path:
        """A log directory that holds it; returns the partition directory."""
        directory = root / _NAME
        directory.mkdir(parents=True)
        for base, content in self.files().items():
            (directory / f"{base:020d}.log").write_bytes(content)
            aborted = [(batch.aborts, batch.last_offset) for batch in self.segments[base] if batch.aborts is not None]
            if aborted:
                entries = (struct.pack(">hqqqq", 0, _PRODUCER, first, last, last + 1) for first, last in aborted)
                (directory / f"{base:020d}.txnindex").write_bytes(b"".join(entries))
            if self.has_indexes:
                _write_indexes(directory, base, self.segments[base])
        (directory / "leader-epoch-checkpoint").write_text("0\n1\n3 0\n")
        (directory / "partition.metadata").write_text("version: 0\ntopic_id: qesnf9AHR5-Xtl7tnUTbTA")
        (root / "meta.properties").write_text("version=1\ncluster.id=QM1ixpRfs9zYMm7bMXWL6A\nnode.id=1\n")
        lines = {"replication": self.high_watermark} | ({"cleaner": max(self.segments)} if self.is_cleaned else {})
        for name, offset in lines.items():
            text = f"0\n1\n{_NAME.replace('-', ' ')} {offset}\n"
            (root / f"{name}-offset-checkpoint").write_text(text)
        return directory


def _write_indexes(directory: Path, base: int, batches: Sequence[Placed]) -> None:
    """An entry for every second batch, as a broker with a small interval leaves them."""
    offsets, position = b"", 0
    for number, batch in enumerate(batches):
        if number == 1:
            offsets += struct.pack(">ii", batch.last_offset - base, position)
        position += len(batch.data)
    (directory / f"{base:020d}.index").write_bytes(offsets)


def log(seed: int, magic: int = 2) -> Log:
    """That log; the same for ever."""
    draw = random.Random(f"{seed}:{magic}")
    is_cleaned = seed % 4 == 3
    segments: dict[int, tuple[Placed, ...]] = {}
    offset = 0
    make = _Batches(draw, magic)
    for number, count in enumerate(_SEGMENTS):
        base, batches = offset, []
        is_active = number == len(_SEGMENTS) - 1
        for _ in range(count):
            batch = make.next(offset, is_cleaned and not is_active)
            batches.append(batch)
            offset = batch.last_offset + 1
        segments[base] = tuple(batches)
    last = segments[max(segments)][-1]
    first_of_last = last.rows[0].offset if last.rows else last.last_offset
    high_watermark = first_of_last if seed % 5 == 4 else offset
    return Log(segments, high_watermark, is_cleaned, has_indexes=bool(seed % 2))


class _Batches:
    """Batches of every kind, one after the other. The next batch ends a transaction."""

    def __init__(self, draw: random.Random, magic: int) -> None:
        self._draw, self._magic = draw, magic
        self._sequences = {_IDEMPOTENT: 0, _PRODUCER: 0}
        self._open_from: int | None = None

    def next(self, offset: int, is_cleaned: bool) -> Placed:
        """The batch that begins at an offset, or in a cleaned segment a little above."""
        if is_cleaned:
            offset += self._draw.choice((0, 0, 1, 4, 40))
        if self._magic < 2:
            return self._message(offset)
        if self._open_from is not None:
            kind = self._draw.choice((handmade.ABORT, handmade.COMMIT))
            data = handmade.marker(offset, kind, producer_id=_PRODUCER, base_timestamp=_TIME + offset, leader_epoch=3)
            began, self._open_from = self._open_from, None
            return Placed(data, offset, (), aborts=began if kind == handmade.ABORT else None)
        if is_cleaned and self._draw.random() < 0.15:
            return Placed(handmade.empty_batch(offset, 3, leader_epoch=3), offset + 3, ())
        return self._records(offset, is_cleaned)

    def _records(self, offset: int, is_cleaned: bool) -> Placed:
        draw = self._draw
        deltas = sorted(draw.sample(range(6), draw.randint(1, 4))) if is_cleaned else list(range(draw.randint(1, 4)))
        contents = [b"%d:%d" % (offset + delta, draw.getrandbits(64)) for delta in deltas]
        if draw.random() < 0.3:
            # A mirrored segment: the value is a batch itself, of offsets that would fit after this one.
            contents[0] += handmade.simple_batch(offset + deltas[-1] + 1, [(b"k", b"v")], leader_epoch=3)
        records = b"".join(
            handmade.record(delta, b"k%d" % delta, content, timestamp_delta=delta)
            for delta, content in zip(deltas, contents, strict=True)
        )
        codec = draw.choice((streams.NONE, *range(5)))
        producer: dict[str, int] = {}
        attributes = codec
        if not is_cleaned and draw.random() < 0.4:
            number = draw.choice((_IDEMPOTENT, _PRODUCER))
            producer = {"producer_id": number, "producer_epoch": 0, "base_sequence": self._sequences[number]}
            self._sequences[number] += len(deltas)
            if number == _PRODUCER:
                self._open_from = offset
                attributes |= handmade.TRANSACTIONAL
        data = handmade.batch(
            base_offset=offset,
            leader_epoch=3,
            attributes=attributes,
            last_offset_delta=deltas[-1],
            base_timestamp=_TIME + offset,
            max_timestamp=_TIME + offset + deltas[-1],
            count=len(deltas),
            body=streams.STREAMS[codec](records),
            **producer,
        )
        rows = tuple(Row(offset + delta, content) for delta, content in zip(deltas, contents, strict=True))
        return Placed(data, offset + deltas[-1], rows)

    def _message(self, offset: int) -> Placed:
        draw, magic = self._draw, self._magic
        if draw.random() < 0.5:
            content = b"%d:%d" % (offset, draw.getrandbits(64))
            fields = {"timestamp": _TIME + offset} if magic == 1 else {}
            return Placed(
                handmade.message(offset, b"k", content, magic=magic, **fields), offset, (Row(offset, content),)
            )
        offsets = range(offset, offset + draw.randint(1, 4))
        contents = [b"%d:%d" % (each, draw.getrandbits(64)) for each in offsets]
        inner = [
            handmade.message(
                each if magic == 0 else each - offset,
                b"k",
                content,
                magic=magic,
                **({"timestamp": _TIME + each} if magic == 1 else {}),
            )
            for each, content in zip(offsets, contents, strict=True)
        ]
        fields = {"timestamp": _TIME + offsets[-1]} if magic == 1 else {}
        codec = draw.choice((handmade.GZIP, handmade.SNAPPY, handmade.LZ4))
        data = handmade.wrapper(inner, offset=offsets[-1], codec=codec, magic=magic, **fields)
        return Placed(data, offsets[-1], tuple(map(Row, offsets, contents)), is_absolute=magic == 0)


def _offset_in(data: bytes) -> int:
    return int.from_bytes(data[:8], "big", signed=True)


def _checked_from(data: bytes) -> int:
    return 21 if data[16] == 2 else 16


@lru_cache(maxsize=1 << 14)
def _checksum(body: bytes, is_v2: bool) -> int:
    return handmade.crc32c(body) if is_v2 else handmade.crc32(body)


def consumed(log: Log, files: dict[int, bytes]) -> list[Row]:
    """The committed records that a consumer gets that begins at the log's start."""
    known = {batch.body: batch for batch in log.batches}
    got: list[Row] = []
    fetch_offset = 0
    for _, content in sorted(files.items()):
        position = 0
        while len(content) - position >= 17:
            offset, length, epoch_or_crc, magic = struct.unpack_from(">qiIb", content, position)
            if length < _SMALLEST_LENGTH:
                return got
            end = position + 12 + length
            if end > len(content):
                break
            data, position = content[position:end], end
            if magic not in (0, 1, 2) or (magic == 2 and len(data) < 61):
                return got
            body = data[_checked_from(data) :]
            stated = struct.unpack_from(">I", data, 17)[0] if magic == 2 else epoch_or_crc
            last_offset = offset + struct.unpack_from(">i", data, 23)[0] if magic == 2 else offset
            if last_offset < fetch_offset:
                continue
            if _checksum(body, magic == 2) != stated:
                return got
            batch = known[body]
            moved = 0 if batch.is_absolute else last_offset - batch.last_offset
            rows = [Row(row.offset + moved, row.content) for row in batch.rows]
            got += [row for row in rows if fetch_offset <= row.offset < log.high_watermark]
            fetch_offset = last_offset + 1
    return got


def missed(log: Log, files: dict[int, bytes]) -> list[Row]:
    """The committed records that it does not get. Of a cleaned log only the content counts: nothing says at which
    offset between two others a record stood."""
    got = Counter(_identity(log, row) for row in consumed(log, files))
    wanted = [row for batch in log.batches for row in batch.rows if row.offset < log.high_watermark]
    return [row for row in wanted if not got[_identity(log, row)]]


def doubted(log: Log, number: int, bit: int) -> Placed | None:
    """The batch before, where a flipped offset leaves two explanations. In a cleaned log a batch that now begins inside
    the one before, and leaves that one room below, may be right, and that one wrong. No byte of the segment shows
    which."""
    batch = log.batches[number]
    base, segment = next((base, batches) for base, batches in log.segments.items() if batch in batches)
    at = segment.index(batch)
    if not log.is_cleaned or bit >= 64 or not at or batch.is_absolute:
        return None
    before = segment[at - 1]
    behind = segment[at - 2].last_offset + 1 if at > 1 else base
    moved = _offset_in(handmade.flip(batch.data, bit // 8, 7 - bit % 8)) - _offset_in(batch.data)
    first = batch.first_offset + moved
    return before if behind + before.last_offset - before.first_offset < first <= before.last_offset else None


def _identity(log: Log, row: Row) -> object:
    return row.content if log.is_cleaned else row


class Verified(NamedTuple):
    """What `verify` said: its exit code and its lines."""

    code: int
    lines: list[dict[str, object]]


class Place:
    """A log on disk, of which one segment's bytes change from question to question."""

    def __init__(self, log: Log, root: Path) -> None:
        self._log, self._root = log, root
        self._directory = log.write(root / "logs")
        self._files = log.files()

    def put(self, files: dict[int, bytes]) -> None:
        """Make the segments these, the others as they were."""
        for base, content in files.items():
            if content != self._files[base]:
                (self._directory / f"{base:020d}.log").write_bytes(content)
        self._files = files

    def verified(self) -> Verified:
        """`verify` of the log directory."""
        code, out = _run(["verify", "--format", "jsonl", str(self._root / "logs")])
        return Verified(code, [json.loads(line) for line in out.splitlines()])

    def salvaged(self) -> set[bytes]:
        """The batches in what `recover --salvage` writes, by their length fields."""
        new = self._root / "new"
        code, out = _run(["recover", "--salvage", str(self._directory), "--out", str(new)])
        assert code in (0, 1, 2), (code, out)
        found = {batch for path in new.glob("*.log") for batch in _by_length(path.read_bytes())}
        shutil.rmtree(new)
        return found


def _by_length(content: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(content):
        end = position + handmade.size_of(content, position)
        assert position < end <= len(content)
        yield content[position:end]
        position = end


def _run(arguments: list[str]) -> tuple[int, str]:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        code = main(arguments)
    return code, out.getvalue()


EVERY_BIT = os.environ.get("LOGLAKE_TEST_EVERY_BIT") == "1"
