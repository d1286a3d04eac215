"""The contenders of the decoding rows: our engines, kafka-python, aiokafka, Kafka's Java classes; and their agreement.

All of them check every CRC and touch every field of every record. Ours ends as Arrow batches, theirs as objects.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logcore.columns.engines import Engine, decode_segment
from logcore.columns.wanted import EVERYTHING, Place, Wanted
from logcore.records.varint import Buffer
from logcore.segments.scanning.scan import Stretch
from logcore.storage.files import mapped_file
from tests.bench.corpora import Segment
from tests.bench.rounds import Contender
from tests.bench.totals import Differ, Totals, same
from tests.kafka.java_bench import JavaBench, JavaRound

FIELDS = Wanted(columns=("offset", "timestamp_ms", "key", "value", "headers"))
"""What the opponents give of a record."""
PLACE = Place("bench", 0, "log", "segment")

_Row = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


@contextmanager
def mapped(segment: Segment) -> Iterator[mmap.mmap]:
    """The segment's bytes, in memory before the block begins."""
    with segment.path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        np.frombuffer(content, np.uint8)[::4096].max()
        yield content


def batches_of(buf: Buffer, engine: Engine, wanted: Wanted = FIELDS) -> Iterator[pa.RecordBatch]:
    """The records as Arrow batches.

    :raises Differ: a stretch was found that cannot be trusted; there is none in a generated segment.
    """
    for item in decode_segment(buf, place=PLACE, base_offset=0, sealed=True, wanted=wanted, engine=engine):
        if isinstance(item, Stretch):
            raise Differ(f"{engine}: damage is reported at {item.position} ({item.reason})")
        yield item


def ours(
    buf: Buffer, engine: Engine = Engine.KERNELS, wanted: Wanted = FIELDS, *, name: str = "ours", share: float = 1.0
) -> Contender:
    """An engine over bytes in memory, one thread."""

    def seconds() -> float:
        begun = time.perf_counter()
        for _ in batches_of(buf, engine, wanted):
            pass
        return time.perf_counter() - begun

    return Contender(name, seconds, share)


def ours_from_file(segment: Segment, name: str = "ours") -> Contender:
    """The kernels, with opening and mapping the file in the time, as Java's opening and reading is in its."""

    def seconds() -> float:
        begun = time.perf_counter()
        content = mapped_file(str(segment.path))
        for _ in batches_of(content, Engine.KERNELS):
            pass
        return time.perf_counter() - begun

    return Contender(name, seconds)


def prefix(content: mmap.mmap, nbytes: int) -> bytes:
    """The first whole batches of at least so many bytes together."""
    at = 0
    while at < min(nbytes, len(content)):
        at += 12 + struct.unpack_from(">i", content, at + 8)[0]
    return content[:at]


def kafka_python(data: bytes, share: float) -> Contender:
    """kafka-python's `MemoryRecords` over a part of the segment."""
    return Contender("kafka-python", _peer_seconds(_kafka_python_batches, data), share)


def aiokafka(data: bytes, share: float) -> Contender:
    """aiokafka's `MemoryRecords`, its compiled ones, over a part of the segment."""
    return Contender("aiokafka", _peer_seconds(_aiokafka_batches, data), share)


def java(bench: JavaBench) -> Contender:
    """Kafka's `FileRecords` over the whole file, in its own JVM, by its own clock."""
    return Contender("Java", lambda: bench.round().ns / 1e9)


def check_against_the_generator(segment: Segment, buf: Buffer, engine: Engine, wanted: Wanted = FIELDS) -> None:
    """Counts and sums over the whole segment are those of what was written.

    :raises Differ: they are not.
    """
    found = Totals()
    for rows in batches_of(buf, engine, wanted):
        found += arrow_totals(rows)
    same(
        f"{segment.corpus.name}, {engine} and generator", found, segment.totals, [each.name for each in fields(Totals)]
    )


def check_against_java(segment: Segment, java_round: JavaRound) -> None:
    """Kafka's classes saw what was written, and so what we saw.

    :raises Differ: they did not.
    """
    names = [each.name for each in fields(Totals) if each.name in JavaRound._fields]
    same(f"{segment.corpus.name}, Java and generator", java_round, segment.totals, names)


def check_against_the_reference(data: bytes, engine: Engine) -> None:
    """Every column of every record is what the reference engine gives.

    :raises Differ: one is not.
    """
    tables = [
        pa.Table.from_batches(batches_of(data, each, EVERYTHING), EVERYTHING.schema)
        for each in (engine, Engine.REFERENCE)
    ]
    if not tables[0].equals(tables[1]):
        raise Differ(f"{engine} and the reference differ in {_differing_columns(*tables)}")


def check_against_peers(data: bytes, engine: Engine, *, with_aiokafka: bool = True) -> None:
    """Every field of every record is what the Python clients give.

    :raises Differ: one is not.
    """
    table = pa.Table.from_batches(batches_of(data, engine), FIELDS.schema)
    expected = _digest(_arrow_rows(table))
    if _digest(_peer_rows(_kafka_python_batches(data))) != expected:
        raise Differ(f"{engine} and kafka-python differ")
    if with_aiokafka and _digest(_peer_rows(_aiokafka_batches(data))) != expected:
        raise Differ(f"{engine} and aiokafka differ")


def arrow_totals(rows: pa.RecordBatch) -> Totals:
    """Counts and sums of one Arrow batch."""
    headers = rows.column("headers").flatten()
    names, values = (headers.field(0), headers.field(1)) if len(headers) else (None, None)
    return Totals() + Totals(
        records=rows.num_rows,
        offset_sum=_sum(rows.column("offset")),
        timestamp_sum=_sum(rows.column("timestamp_ms")),
        key_bytes=pc.sum(pc.binary_length(rows.column("key"))).as_py() or 0,
        value_bytes=pc.sum(pc.binary_length(rows.column("value"))).as_py() or 0,
        headers=len(headers),
        header_bytes=sum(pc.sum(size(each)).as_py() or 0 for size, each in _sized(names, values)),
        null_keys=rows.column("key").null_count,
        null_values=rows.column("value").null_count,
    )


def _sized(names: pa.Array | None, values: pa.Array | None) -> list[tuple[Callable[[pa.Array], pa.Array], pa.Array]]:
    return [] if names is None else [(pc.utf8_length, names), (pc.binary_length, values)]


def _sum(column: pa.Array) -> int:
    return int(column.to_numpy(zero_copy_only=True).sum(dtype=np.int64))


def _kafka_python_batches(data: bytes) -> Iterator[Any]:
    from kafka.record.memory_records import MemoryRecords

    yield from MemoryRecords(data)


def _aiokafka_batches(data: bytes) -> Iterator[Any]:
    from aiokafka.record._crecords.memory_records import MemoryRecords

    records = MemoryRecords(data)
    while records.has_next():
        yield records.next_batch()


def _peer_seconds(batches: Callable[[bytes], Iterator[Any]], data: bytes) -> Callable[[], float]:
    def seconds() -> float:
        begun = time.perf_counter()
        for batch in batches(data):
            if not batch.validate_crc():
                raise Differ("a client finds a checksum wrong")
            for record in batch:
                # Fields may be made when they are asked for.
                record.offset, record.timestamp, record.key, record.value, record.headers  # noqa: B018
        return time.perf_counter() - begun

    return seconds


def _peer_rows(batches: Iterable[Any]) -> Iterator[_Row]:
    for batch in batches:
        for record in batch:
            yield record.offset, record.timestamp, record.key, record.value, list(record.headers)


def _arrow_rows(table: pa.Table) -> Iterator[_Row]:
    columns = [table.column(name).to_pylist() for name in ("offset", "timestamp_ms", "key", "value", "headers")]
    for offset, timestamp, key, value, headers in zip(*columns, strict=True):
        yield offset, timestamp, key, value, [(each["key"], each["value"]) for each in headers or ()]


def _digest(rows: Iterator[_Row]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        digest.update(repr(row).encode())
    return digest.hexdigest()


def _differing_columns(first: pa.Table, second: pa.Table) -> str:
    if first.num_rows != second.num_rows:
        return f"the number of rows ({first.num_rows}, {second.num_rows})"
    return ", ".join(name for name in first.column_names if not first.column(name).equals(second.column(name)))
