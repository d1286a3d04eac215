"""Batches that are small on disk and large, or said to be large, in memory; and a process that reads one and says what
it took.

    python -m tests.fuzz.bombs ENGINE NAME...    one JSON line a bomb: rows, reasons, megabytes, seconds

Megabytes are the peak of the process's resident memory while it read, less what was resident before: the bomb itself,
the interpreter, and the engine after it had read a small batch of each codec.
"""

import gc
import json
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import snappy
import zstandard

from logcore.columns.engines import Engine, decode_segment
from logcore.columns.wanted import Place
from logcore.records.record import DEFAULT_LIMITS, Limits
from logcore.segments.scanning.scan import Stretch
from tests import handmade
from tests.fuzz import streams
from tests.fuzz.canonical import CANONICAL, message

MIB = 1 << 20
CAP = 1 * MIB
"""The cap of the small bombs; the large ones go against the default."""
SMALL_CAP = Limits(decoded_batch_bytes=CAP)
HUGE = 257 * MIB
"""More than the default cap."""
_ZEROS = bytes(MIB)
MAGICS = {streams.GZIP: (0, 1, 2), streams.SNAPPY: (0, 1, 2), streams.LZ4: (0, 1, 2), streams.ZSTD: (2,)}
NAMES = {streams.GZIP: "gzip", streams.SNAPPY: "snappy", streams.LZ4: "lz4", streams.ZSTD: "zstd"}


@dataclass(frozen=True, slots=True)
class Bomb:
    """How to make it, and what must come of it: a number of rows, or the reason of the one stretch."""

    make: Callable[[], bytes]
    limits: Limits
    rows: int = 0
    reason: str | None = None


def _batch(stream: bytes, codec: int, count: int = 1, **fields: int) -> bytes:
    """A v2 batch with this stream; the checksum by zlib's neighbour would take minutes in plain Python."""
    import crc32c

    data = handmade.batch(
        body=stream, attributes=codec, count=count, last_offset_delta=max(count - 1, 0), crc=0, **fields
    )
    return handmade.patch(data, handmade.CRC_AT, struct.pack(">I", crc32c.crc32c(data[handmade.CRC_FROM :])))


def _message(magic: int, value: bytes, codec: int) -> bytes:
    """A wrapper, its checksum by zlib."""
    data = handmade.message(0, None, value, magic=magic, attributes=codec, crc=0)
    return handmade.patch(data, 12, struct.pack(">I", zlib.crc32(data[16:])))


def _wrapped(magic: int, codec: int, stream: bytes) -> bytes:
    return _batch(stream, codec) if magic == 2 else _message(magic, stream, codec)


def _plain(magic: int, size: int) -> bytes:
    """One record or message of exactly that many bytes, its value zeros."""
    value = size
    while True:
        value -= 1
        if magic == 2:
            sizes = [len(handmade.varint(value)), 5]  # attributes, timestamp, offset, key length, header count
            inner = sum(sizes) + value
            if len(handmade.varint(inner)) + inner == size:
                return handmade.record(0, None, bytes(value))
        elif 12 + (14 if magic == 0 else 22) + value == size:
            return message(magic, 0, None, bytes(value), 0)


def _head(size: int) -> bytes:
    """The bytes before the value of a record of about that size. Zeros follow."""
    return handmade.record(0, None, b"", length=size)[:-2] + handmade.varint(size)


def _zeros(size: int) -> Iterator[bytes]:
    """The beginning of a record, then zeros: sound until the cap is reached."""
    yield _head(size)
    for _ in range(size // MIB):
        yield _ZEROS


def _gzip(size: int) -> bytes:
    deflate = zlib.compressobj(1, zlib.DEFLATED, 31)
    return b"".join([*map(deflate.compress, _zeros(size)), deflate.flush()])


def _zstd(size: int) -> bytes:
    stream = zstandard.ZstdCompressor(level=3, write_content_size=False).compressobj()
    return b"".join([*map(stream.compress, _zeros(size)), stream.flush()])


def _lz4(size: int) -> bytes:
    whole = streams.lz4_stream(bytes(64 * 1024))
    block = whole[7:-4]
    return streams.lz4_stream(_head(size))[:-4] + block * (size // (64 * 1024)) + bytes(4)


def _xerial(size: int) -> bytes:
    block = streams.snappy_stream(bytes(32 * 1024))[16:]
    return streams.snappy_stream(_head(size)) + block * (size // (32 * 1024))


def _snappy_unframed(size: int) -> bytes:
    return bytes(snappy.compress(_head(size) + bytes(size)))


def _zstd_frame(descriptor: int, rest: bytes) -> bytes:
    """A frame header said freely, then one raw last block of four bytes."""
    return b"\x28\xb5\x2f\xfd" + bytes([descriptor]) + rest + struct.pack("<I", 1 | 4 << 3)[:3] + b"zstd"


def _window(log: int, content: bytes) -> bytes:
    """A sound frame that asks for a window of 2^log bytes."""
    block = struct.pack("<I", 1 | len(content) << 3)[:3] + content
    return b"\x28\xb5\x2f\xfd\x00" + bytes([log - 10 << 3]) + block


def _headers(count: int) -> bytes:
    """A record of so many headers of two bytes each: an empty name, an empty value."""
    body = b"\0" * 3 + handmade.varint(-1) * 2 + handmade.varint(count) + bytes(2 * count)
    return handmade.varint(len(body)) + body


def _smallest(count: int) -> bytes:
    """So many records of seven bytes (eight and nine where their number needs it): null key, null value, no headers."""
    records = []
    for delta in range(count):
        body = b"\0\0" + handmade.varint(delta) + b"\1\1\0"
        records.append(bytes([len(body) * 2]) + body)
    return b"".join(records)


def _bombs() -> dict[str, Bomb]:
    bombs: dict[str, Bomb] = {}
    for codec, magics in MAGICS.items():
        for magic in magics:
            for name, size in (("one below", CAP - 1), ("at", CAP), ("one above", CAP + 1)):

                def make(codec: int = codec, magic: int = magic, size: int = size) -> bytes:
                    return _wrapped(magic, codec, streams.STREAMS[codec](_plain(magic, size)))

                above = size > CAP
                bombs[f"v{magic} {NAMES[codec]} {name} the cap"] = Bomb(
                    make, SMALL_CAP, 0 if above else 1, "OUTPUT_CAP" if above else None
                )
    for name, size in (("one below", CAP - 1), ("at", CAP), ("one above", CAP + 1)):

        def unframed(size: int = size) -> bytes:
            return _batch(streams.snappy_raw(_plain(2, size)), streams.SNAPPY)

        above = size > CAP
        bombs[f"v2 snappy unframed {name} the cap"] = Bomb(
            unframed, SMALL_CAP, 0 if above else 1, "OUTPUT_CAP" if above else None
        )

    zeros = {
        "gzip": (streams.GZIP, _gzip),
        "zstd": (streams.ZSTD, _zstd),
        "lz4": (streams.LZ4, _lz4),
        "snappy": (streams.SNAPPY, _xerial),
        "snappy unframed": (streams.SNAPPY, _snappy_unframed),
    }
    for name, (codec, pack) in zeros.items():
        for magic in MAGICS[codec]:

            def huge(codec: int = codec, magic: int = magic, pack: Callable[[int], bytes] = pack) -> bytes:
                return _wrapped(magic, codec, pack(HUGE))

            bombs[f"v{magic} {name} of 257 MiB of zeros"] = Bomb(huge, DEFAULT_LIMITS, 0, "OUTPUT_CAP")

    def stated(name: str, codec: int, stream: Callable[[], bytes], reason: str) -> None:
        bombs[name] = Bomb(lambda: _batch(stream(), codec), DEFAULT_LIMITS, 0, reason)

    tebibyte = struct.pack("<Q", 1 << 40)
    stated("zstd of 1 TiB by its header", streams.ZSTD, lambda: _zstd_frame(0xC0, b"\x68" + tebibyte), "CODEC_STREAM")
    stated("zstd of one segment of 1 TiB", streams.ZSTD, lambda: _zstd_frame(0xE0, tebibyte), "CODEC_STREAM")
    stated("zstd window of 2^28", streams.ZSTD, lambda: _window(28, handmade.record()), "CODEC_STREAM")
    stated("zstd window of 2^41", streams.ZSTD, lambda: _window(41, handmade.record()), "CODEC_STREAM")
    bombs["zstd window of 2^27"] = Bomb(
        lambda: _batch(_window(27, handmade.record()), streams.ZSTD), DEFAULT_LIMITS, rows=1
    )
    declared = b"\xff\xff\xff\xff\x0f"
    stated("snappy of 4 GiB by its length", streams.SNAPPY, lambda: declared + b"\0a" * 9, "OUTPUT_CAP")
    stated(
        "snappy block of 4 GiB by its length",
        streams.SNAPPY,
        lambda: streams.XERIAL + struct.pack(">i", 9) + declared + b"\0a\0a",
        "OUTPUT_CAP",
    )
    for length in (0x7FFFFFFF, -1, -(1 << 31), 100):
        stated(
            f"snappy block of {length} bytes that are not there",
            streams.SNAPPY,
            lambda length=length: streams.XERIAL + struct.pack(">i", length) + b"\0a",
            "CODEC_STREAM",
        )
    stated(
        "lz4 block of 2 GiB that is not there",
        streams.LZ4,
        lambda: streams.lz4_stream(b"a")[:7] + struct.pack("<I", 0x7FFFFFFF) + b"a",
        "CODEC_STREAM",
    )
    for count in ((1 << 31) - 1, 1 << 20):
        bombs[f"a count of {count} records"] = Bomb(
            lambda count=count: handmade.batch([handmade.record()], count=count, last_offset_delta=(1 << 31) - 1),
            DEFAULT_LIMITS,
            0,
            "COUNT",
        )
        bombs[f"a count of {count} records in gzip"] = Bomb(
            lambda count=count: handmade.batch(
                body=streams.gzip_stream(handmade.record()),
                attributes=streams.GZIP,
                count=count,
                last_offset_delta=(1 << 31) - 1,
            ),
            DEFAULT_LIMITS,
            0,
            "COUNT",
        )
    for magic in (0, 1):
        bombs[f"v{magic} wrapper around a message of 2 GiB that is not there"] = Bomb(
            lambda magic=magic: _message(
                magic,
                streams.gzip_stream(message(magic, 0, b"k", b"v", 0) + struct.pack(">qi", 1, 0x7FFFFFFF) + bytes(9)),
                streams.GZIP,
            ),
            DEFAULT_LIMITS,
            1,
        )
    million = 1_000_000
    bombs["a record of 10^6 + 1 headers"] = Bomb(
        lambda: _batch(_headers(million + 1), 0), DEFAULT_LIMITS, 0, "OUTPUT_CAP"
    )
    bombs["a record of 10^6 headers"] = Bomb(
        lambda: _batch(streams.zstd_stream(_headers(million)), streams.ZSTD), DEFAULT_LIMITS, 1
    )
    many = 1 << 18
    bombs["a batch of 2^18 smallest records"] = Bomb(
        lambda: _batch(streams.zstd_stream(_smallest(many)), streams.ZSTD, many), DEFAULT_LIMITS, many
    )
    bombs["a record of 100 MiB"] = Bomb(lambda: _batch(_plain(2, 100 * MIB), 0), DEFAULT_LIMITS, 1)
    bombs["a record of 100 MiB in lz4"] = Bomb(
        lambda: _batch(streams.lz4_stream(_plain(2, 100 * MIB)), streams.LZ4), DEFAULT_LIMITS, 1
    )
    bombs["a record that fills the default cap"] = Bomb(
        lambda: _batch(streams.zstd_stream(_plain(2, DEFAULT_LIMITS.decoded_batch_bytes)), streams.ZSTD),
        DEFAULT_LIMITS,
        1,
    )
    return bombs


BOMBS = _bombs()
_PLACE = Place("t", 0, "log", "segment")


def read(data: bytes, engine: Engine, limits: Limits) -> tuple[int, list[str]]:
    """Rows and the reasons of stretches; every piece is dropped before the next is asked for."""
    rows, reasons = 0, []
    for item in decode_segment(data, place=_PLACE, base_offset=0, sealed=True, limits=limits, engine=engine):
        if isinstance(item, Stretch):
            reasons.append(str(item.reason))
        else:
            rows += item.num_rows
    return rows, reasons


def _resident(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status does not tell {name}")


def main(engine: Engine, names: list[str]) -> None:
    """Read what is small, then the bombs, one after the other."""
    for small in CANONICAL:
        read(small.data, engine, SMALL_CAP)
    for name in names:
        bomb = BOMBS[name]
        data = bomb.make()
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
        before = _resident("VmRSS")
        started = time.monotonic()
        rows, reasons = read(data, engine, bomb.limits)
        seconds = time.monotonic() - started
        mebibytes = (_resident("VmHWM") - before) / MIB
        print(json.dumps({"name": name, "rows": rows, "reasons": reasons, "mebibytes": mebibytes, "seconds": seconds}))


if __name__ == "__main__":
    main(Engine(sys.argv[1]), sys.argv[2:])
