"""What the machine allows: each byte checksummed once, decompressed once, copied once, and nothing else.

    1/T = segment_bytes/crc_bw + raw_bytes/decompress_bw + raw_bytes/memcpy_bw

Each term is the fastest way to do that one thing that is at hand here, measured in the same rounds as the engine:

    crc         the package crc32c over every batch, over pieces of 1 MiB, and the kernel that walks batches
    decompress  the codec's package alone over every batch (isal for gzip, cramjam for snappy), its output dropped
    memcpy      from the mapped file, or where the records were compressed from 8 MiB in the cache, into a warm 8 MiB
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from logcore.columns.kernels import batch_row
from logcore.columns.kernels.call_frames import DONE, address_of
from logcore.columns.kernels.decoding.decoding_frames import WalkFrame
from logcore.columns.kernels.library import library
from tests.bench.corpora import BATCH_BYTES, Corpus, Segment
from tests.bench.rounds import Contender, Outcome, clocked
from tests.bench.segments import XERIAL

_ARENA_BYTES = 8 << 20
_PIECE_BYTES = 1 << 20


def terms(segment: Segment, content: mmap.mmap) -> list[Contender]:
    """Contenders `crc …`, `decompress …` and `memcpy`; of each kind the fastest counts."""
    view = memoryview(content)
    spans = _spans(content)
    checked = [view[start + 21 : end] for start, end in spans]
    pieces = [view[at : at + _PIECE_BYTES] for at in range(0, len(view), _PIECE_BYTES)]
    ways: dict[str, Callable[[], object]] = {
        "crc by batch": partial(_each, _crc32c(), checked),
        "crc by piece": partial(_each, _crc32c(), pieces),
        "crc by kernel": partial(walk_batches, content),
        "memcpy": _copies(segment, content),
    }
    stored = [view[start + 61 : end] for start, end in spans]
    for name, way in _decompressors(segment.corpus).items():
        ways[f"decompress by {name}"] = partial(_each, way, stored)
    return [Contender(name, clocked(way)) for name, way in ways.items()]


def limit_seconds(outcome: Outcome) -> float:
    """The sum of the fastest ways, by their medians."""
    return sum(outcome.times[name].median for name in fastest(outcome))


def fastest(outcome: Outcome) -> list[str]:
    """Of each kind the contender that counts."""
    names = []
    for kind in ("crc", "decompress", "memcpy"):
        ways = [name for name in outcome.times if name.split()[0] == kind]
        names += sorted(ways, key=lambda name: outcome.times[name].median)[:1]
    return names


def _spans(content: mmap.mmap) -> list[tuple[int, int]]:
    spans, at = [], 0
    while at < len(content):
        end = at + 12 + struct.unpack_from(">i", content, at + 8)[0]
        spans.append((at, end))
        at = end
    return spans


def _each(way: Callable[[memoryview], object], pieces: Sequence[memoryview]) -> None:
    for piece in pieces:
        way(piece)


def _crc32c() -> Callable[[memoryview], object]:
    import crc32c

    return crc32c.crc32c


def walk_batches(content: mmap.mmap | bytes) -> None:
    """Verify the checksum of every batch with our kernel, and nothing else.

    :raises RuntimeError: the kernel doubts a batch.
    """
    kernels = library()
    data = np.frombuffer(content, np.uint8)
    table = np.empty((16_384, batch_row.WIDTH), np.int64)
    frame = WalkFrame()
    frame.source, frame.size = address_of(data), len(content)
    frame.ceiling = 2**62
    frame.max_batches, frame.max_bytes = len(table), _PIECE_BYTES
    frame.checksum_tables, frame.table = kernels.tables_address, address_of(table)
    while frame.position < len(content):
        kernels.call("walk", frame)
        if frame.status != DONE:
            raise RuntimeError("the walk doubts a generated segment")


def _copies(segment: Segment, content: mmap.mmap) -> Callable[[], object]:
    target = np.zeros(_ARENA_BYTES, np.uint8)
    if segment.corpus.codec == "none":
        source = np.frombuffer(content, np.uint8)[: segment.raw_bytes]
    else:
        source = np.lib.stride_tricks.as_strided(
            np.ones(_ARENA_BYTES, np.uint8), (-(-segment.raw_bytes // _ARENA_BYTES), _ARENA_BYTES), (0, 1)
        )

    def copy() -> None:
        if source.ndim == 2:
            for row in source:
                np.copyto(target, row)
        else:
            for at in range(0, len(source), _ARENA_BYTES):
                piece = source[at : at + _ARENA_BYTES]
                np.copyto(target[: len(piece)], piece)

    return copy


def _decompressors(corpus: Corpus) -> dict[str, Callable[[memoryview], object]]:
    codec, room = corpus.codec, 2 * BATCH_BYTES[corpus.batch]
    if codec == "lz4":
        import lz4.frame

        return {"lz4": lz4.frame.decompress}
    if codec == "zstd":
        import zstandard

        zstd = zstandard.ZstdDecompressor()
        target = bytearray(room)
        return {
            "zstandard at once": lambda stored: zstd.decompress(stored, max_output_size=room),
            "zstandard streamed": lambda stored: zstd.decompressobj().decompress(stored),
            "zstandard into a buffer": lambda stored: zstd.stream_reader(stored).readinto(target),
        }
    if codec == "gzip":
        from isal import igzip_lib

        return {"isal": lambda stored: igzip_lib.decompress(stored, flag=igzip_lib.DECOMP_GZIP)}
    if codec == "snappy":
        return {"cramjam": _xerial(bytearray(room))}
    return {}


def _xerial(target: bytearray) -> Callable[[memoryview], object]:
    from cramjam import snappy

    room = np.frombuffer(target, np.uint8)

    def decompress(stored: memoryview) -> int:
        at, given = len(XERIAL), 0
        while at < len(stored):
            nbytes = struct.unpack_from(">i", stored, at)[0]
            given += snappy.decompress_raw_into(stored[at + 4 : at + 4 + nbytes], room[given:])
            at += 4 + nbytes
        return given

    return decompress
