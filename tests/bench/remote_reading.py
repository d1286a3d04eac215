"""The rows about remote storage: a segment in encrypted chunks against the same plain file, and one offset of it.

The store is versitygw over a directory of the same disk, on loopback. Our process has one processor; the store has any.
"""

from __future__ import annotations

import hashlib
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from logcore.columns.wanted import Wanted
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.reading.consumer_log import ChosenRecords
from logcore.reading.read_options import Notes
from logcore.reading.shown_segments import columns_of
from logcore.remote.aiven_layout import index_path
from logcore.remote.stored_part import SegmentPart
from logcore.segments.filenames import DirectoryKind, TopicPartition
from logcore.storage import opened_source
from logcore.storage.objects.object_reads import ObjectVersion
from logcore.storage.remote_tier.chunked_segment import KEYS_VARIABLE
from tests import remote_objects
from tests.bench.corpora import Segment, named, segment
from tests.bench.objects import served
from tests.bench.offset_commits import one_processor
from tests.bench.readers import FIELDS, arrow_totals
from tests.bench.results import Line, Unit, compared
from tests.bench.rounds import Contender, take_turns
from tests.bench.totals import Differ, Totals
from tests.object_store.gateway import Gateway

READ, OFFSET = "remote-read", "remote-offset"
CHUNK_BYTES = 4 << 20
_NAME = "small-BBBBBBBBBBBBBBBBBBBBBQ/0/00000000000000000000-Zs2vpUXwT1WTbYAIMD4Ahg"
_PLACES = 5


def read_lines(mib: int, rounds: int) -> Iterator[Line]:
    """All records of a segment to Arrow, from the store and from the file.

    :raises Differ: a reading is not that of what was written. :raises NoGateway: versitygw cannot be had here.
    """
    made = segment(named("small-none-16k"), mib)
    with _stored(made) as (_, remote), one_processor():
        plain = _file(made.path)
        contenders = [Contender("remote", lambda: _read(remote, made)), Contender("plain", lambda: _read(plain, made))]
        outcome = take_turns(contenders, rounds=rounds)
        line = compared(
            f"{READ}: {mib} MiB to Arrow from encrypted chunks in a bucket, one processor",
            outcome,
            "remote",
            "plain",
            raw_bytes=made.raw_bytes,
            records=made.totals.records,
            must=0.35,
            aim=0.6,
            unit=Unit.OF_ITS_SPEED,
        )
    yield line


def offset_lines(mib: int) -> Iterator[Line]:
    """Bytes that are requested for one offset, in chunks, for offsets at several places of the segment.

    :raises Differ: another record comes. :raises NoGateway: versitygw cannot be had here.
    """
    made = segment(named("small-none-16k"), mib)
    with _stored(made) as (gateway, remote):
        stored = gateway.folder / "bench" / f"{_NAME}.log"
        chunk_bytes = stored.stat().st_size / -(-made.size // CHUNK_BYTES)
        others = sum(stored.with_suffix(suffix).stat().st_size for suffix in (".indexes", ".rsm-manifest"))
        figures, requests = [], 0
        for number in range(_PLACES):
            offset = made.totals.records * (2 * number + 1) // (2 * _PLACES)
            before, notes = gateway.requests(_NAME).total(), Notes()
            wanted = Wanted(("offset",), ((offset, offset + 1),))
            with _counted() as sizes:
                found = [
                    each
                    for shows in ChosenRecords(_log(remote), wanted, offset, offset + 1).segments(notes)
                    for rows in columns_of(shows, notes)
                    for each in rows.column("offset").to_pylist()
                ]
            if found != [offset] or notes.findings:
                raise Differ(f"offset {offset} was wanted, and {found} came")
            figures.append(round(sum(sizes) / chunk_bytes, 1))
            requests = max(requests, gateway.requests(_NAME).total() - before)
    worst = max(figures)
    yield Line(
        f"{OFFSET}: one offset of a segment of {mib:,} MiB in chunks, beside its indexes",
        "",
        Unit.CHUNKS,
        worst,
        min(figures),
        worst,
        f"{worst * chunk_bytes / (1 << 20):.1f} MiB of chunks, {requests} requests",
        f"{others / (1 << 20):.2f} MiB of indexes and manifest",
        2,
        1,
    )


@contextmanager
def _stored(made: Segment) -> Iterator[tuple[Gateway, SegmentFile]]:
    """A store with the segment in encrypted chunks, and the segment as it is listed there."""
    with served() as (gateway, scratch):
        key = scratch / "key.pem"
        key.write_bytes(remote_objects.PRIVATE_KEY)
        bucket = gateway.bucket("bench")
        objects = remote_objects.stored_segment(
            made.path.read_bytes(),
            {"offset": _offset_index(made.path)},
            chunk_size=CHUNK_BYTES,
            compressed=True,
            is_encrypted=True,
        )
        etag = ""
        for suffix, content in (
            (".indexes", objects.indexes),
            (".rsm-manifest", objects.manifest),
            (".log", objects.log),
        ):
            path = gateway.folder / "bench" / (_NAME + suffix)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            etag = f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'
            os.setxattr(path, "user.etag", etag.encode())
        modified_ms = int(path.stat().st_mtime) * 1000
        url = f"{bucket}/{_NAME}.log"
        with patch.dict(os.environ, {KEYS_VARIABLE: f"{remote_objects.KEY_ID}={key}"}):
            beside = ((".index", index_path(url, SegmentPart.OFFSET_INDEX)),)
            yield gateway, SegmentFile(0, url, made.size, modified_ms, 0, beside, etag)


def _offset_index(path: Path) -> bytes:
    """An entry for each batch but the first: the last offset of the batch, and its position."""
    content, at, entries = path.read_bytes(), 0, []
    while at < len(content):
        base, length = struct.unpack_from(">qi", content, at)
        (delta,) = struct.unpack_from(">i", content, at + 23)
        entries.append(struct.pack(">ii", base + delta, at))
        at += 12 + length
    return b"".join(entries[1:])


def _file(path: Path) -> SegmentFile:
    state = path.stat()
    return SegmentFile(0, str(path), state.st_size, state.st_mtime_ns // 1_000_000, state.st_ino)


def _log(file: SegmentFile) -> SourceLog:
    return SourceLog(
        TopicPartition("small", 0), "", DirectoryKind.LIVE, "BBBBBBBBBBBBBBBBBBBBBQ", "bench", (file,), None, 0
    )


def _read(file: SegmentFile, made: Segment) -> float:
    """Seconds of a reading of all records. What came is compared after the clock has stopped."""
    notes, log = Notes(), _log(file)
    begun = time.perf_counter()
    found = [rows for shows in ChosenRecords(log, FIELDS).segments(notes) for rows in columns_of(shows, notes)]
    taken = time.perf_counter() - begun
    totals = Totals()
    for rows in found:
        totals += arrow_totals(rows)
    if totals != made.totals or notes.findings:
        raise Differ(f"{totals} was read, {made.totals} was written")
    return taken


@contextmanager
def _counted() -> Iterator[list[int]]:
    """The bytes of each range of a `.log` that this process requests."""
    sizes: list[int] = []
    real = opened_source.read_range

    def counted(url: str, start: int, end: int, version: ObjectVersion) -> Any:
        if url.endswith(".log"):
            sizes.append(end - start)
        return real(url, start, end, version)

    with patch.object(opened_source, "read_range", counted):
        yield sizes
