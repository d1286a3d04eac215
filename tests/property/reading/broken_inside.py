"""Logs with batches whose checksum is right and whose content contradicts itself, and what is right about each log.

A log is a function of (kind, seed, number) alone. The expectation is known from how it was packed.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from pathlib import Path

from tests import handmade

START_MS = 1_700_000_000_000
_STORED = {
    handmade.GZIP: handmade.stored_gzip,
    handmade.SNAPPY: handmade.stored_snappy,
    handmade.LZ4: handmade.stored_lz4,
}
UNDECODABLE = ("count", "extra byte", "key too long", "headers", "record length", "stream cut", "not a stream")
CONTRADICTING = ("beyond its batch", "twice the same", "falling", "below its batch")


@dataclass(frozen=True)
class Packed:
    """A batch as it was packed."""

    segment: int
    position: int
    content: bytes
    base: int
    count: int
    is_broken: bool

    @property
    def end(self) -> int:
        return self.base + self.count


@dataclass(frozen=True)
class BrokenLog:
    """A log, its batches in order, and its log directory."""

    batches: tuple[Packed, ...]

    def write(self, root: Path) -> Path:
        directory = root / "orders-0"
        directory.mkdir(parents=True)
        for segment in self.segments:
            path = directory / f"{segment:020d}.log"
            path.write_bytes(b"".join(each.content for each in self.batches if each.segment == segment))
        (root / "replication-offset-checkpoint").write_text(f"0\n1\norders 0 {self.end}\n")
        return directory

    @property
    def segments(self) -> list[int]:
        return sorted({each.segment for each in self.batches})

    @property
    def end(self) -> int:
        return self.batches[-1].end

    @property
    def good(self) -> list[Packed]:
        return [each for each in self.batches if not each.is_broken]

    @property
    def ranges(self) -> list[tuple[str, int, int]]:
        """The ledger's states, neighbours of one state joined."""
        joined: list[tuple[str, int, int]] = []
        for each in self.batches:
            state, start = "corrupt" if each.is_broken else "present", each.base
            if joined and joined[-1][0] == state:
                start = joined.pop()[1]
            joined.append((state, start, each.end))
        return joined

    @property
    def places(self) -> set[tuple[str, int, int]]:
        """(file, position, bytes) of what is broken."""
        return {
            (f"{each.segment:020d}.log", each.position, len(each.content)) for each in self.batches if each.is_broken
        }


def broken_log(ways: tuple[str, ...], seed: int, number: int) -> BrokenLog:
    """One to three segments of one to five batches each; at least one is broken in one of these ways, one is good."""
    draw = random.Random(f"{ways}:{seed}:{number}")
    sizes = [draw.randint(1, 5) for _ in range(draw.randint(1, 3))]
    total = max(sum(sizes), 2)
    sizes[-1] += total - sum(sizes)
    broken = set(draw.sample(range(total), draw.randint(1, max(1, total // 2))))
    batches: list[Packed] = []
    base = draw.choice((0, 0, 7, 1 << 33))
    for size in sizes:
        segment, position = base, 0
        for _ in range(size):
            is_broken = len(batches) in broken
            count = draw.randint(3, 6)
            content = _batch(draw, base, count, draw.choice(ways) if is_broken else None)
            batches.append(Packed(segment, position, content, base, count, is_broken))
            position, base = position + len(content), base + count
    return BrokenLog(tuple(batches))


def _batch(draw: random.Random, base: int, count: int, way: str | None) -> bytes:
    deltas = list(range(count))
    at = draw.randrange(1, count)
    stated, codec = count, draw.choice((0, 0, *_STORED))
    fields: list[dict[str, int]] = [{} for _ in deltas]
    after = b""
    match way:
        case "count":
            stated = draw.choice((1, count - 1, count + 1, count + 40))
        case "extra byte":
            after, codec = draw.randbytes(draw.randint(1, 9)), 0
        case "headers":
            fields[at]["header_count"] = draw.choice((-1, 1, 59, 1 << 30))
        case "record length":
            fields[at]["length"] = draw.choice((-1, 0, 5, 100, 1 << 30))
        case "beyond its batch":
            deltas[-1] = count + draw.choice((0, 1, 70, (1 << 31) - 1 - count))
        case "twice the same":
            deltas[at] = deltas[at - 1]
        case "falling":
            deltas[at - 1], deltas[at] = deltas[at], deltas[at - 1]
        case "below its batch":
            deltas[0] = -draw.choice((1, 2, 1 << 31))
    records = [
        handmade.record(delta, b"k%d" % index, draw.randbytes(4), timestamp_delta=index, **each)
        for index, (delta, each) in enumerate(zip(deltas, fields, strict=True))
    ]
    if way == "key too long":
        body = b"\0" + handmade.varint(at) + handmade.varint(at) + handmade.varint(draw.choice((90, 1 << 30))) + b"k"
        records[at] = handmade.varint(len(body)) + body
    plain = b"".join(records) + after
    if way in ("stream cut", "not a stream"):
        codec = draw.choice(list(_STORED))
    body = _STORED[codec](plain) if codec else plain
    if way == "stream cut":
        body = body[: draw.randrange(1, len(body) - 8)]
    elif way == "not a stream":
        codec, body = draw.choice((codec, handmade.ZSTD)), b"\xff" + draw.randbytes(draw.randint(8, 40))
    return handmade.batch(
        base_offset=base,
        attributes=codec,
        last_offset_delta=count - 1,
        base_timestamp=START_MS + (base & 0xFFFF) * 10,
        max_timestamp=START_MS + (base & 0xFFFF) * 10 + count - 1,
        count=stated,
        body=body,
    )


def stored_directory(root: Path) -> dict[str, bytes]:
    """The segment files of a directory by name."""
    return {path.name: path.read_bytes() for path in sorted(root.glob("*.log"))}


def crc_is_right(content: bytes) -> bool:
    """The checksum of a batch, computed a byte at a time."""
    (stated,) = struct.unpack_from(">I", content, handmade.CRC_AT)
    return bool(stated == handmade.crc32c(content[handmade.CRC_FROM :]))
