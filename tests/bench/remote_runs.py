"""The row about runs over remote segments by reference: what travels beside the bytes that are decoded.

The segments lie in encrypted chunks in a bucket, and the metadata topic names them. The operating system counts the
bytes that the gateway sends. The partitions have equal segments, whose objects are links to the same files.
"""

from __future__ import annotations

import base64
import hashlib
import os
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq
from deltalake import DeltaTable

from logcore.storage.remote_tier.chunked_segment import KEYS_VARIABLE
from tests import handmade, remote_objects
from tests.bench.objects import run, served
from tests.bench.results import Line, Unit
from tests.bench.totals import Differ
from tests.broker_directory import TOPIC_ID, LogDirectory
from tests.object_store.gateway import Gateway

REFERENCE = "remote-reference"
PARTITIONS = 100
_TOPIC, _CHUNK_BYTES = "many", 4 << 20
_VALUES, _VALUE_BYTES, _BATCHES = 16, 1000, 32
"""Records of a batch, bytes of a value, batches of a segment."""
_RECORDS = _VALUES * _BATCHES
_FINISHED = 1


@dataclass(frozen=True)
class _Bucket:
    """What is stored: bytes of the segments as objects and as segments, and of their manifests."""

    segments: int
    log_bytes: int
    segment_bytes: int


def reference_lines(count: int) -> Iterator[Line]:
    """Bytes that `loglake run --mode reference` reads beside each segment once, for so many remote segments.

    Args:
        count: Segments, a multiple of the number of partitions.

    Raises:
        Differ: The table does not have the records that were stored.
        NoGateway: versitygw cannot be had here.
    """
    with served() as (gateway, scratch):
        key, lake = scratch / "key.pem", scratch / "lake"
        key.write_bytes(remote_objects.PRIVATE_KEY)
        tier = f"{gateway.bucket('bench')}/tier"
        stored = _store(gateway.folder / "bench" / "tier", scratch / "logs", count // PARTITIONS)
        with patch.dict(os.environ, {KEYS_VARIABLE: f"{remote_objects.KEY_ID}={key}"}):
            before = gateway.sent()
            command = (str(scratch / "logs"), str(lake), scratch, "--remote", tier, "--mode", "reference")
            taken = run(*command)
            sent, asked = gateway.sent() - before, _requests(gateway)
            _compare(lake, count // PARTITIONS)
            run(*command)
            later, asked_later = gateway.sent() - before - sent, _requests(gateway)
    beside = 100 * (sent - stored.log_bytes) / stored.log_bytes
    yield Line(
        f"{REFERENCE}: bytes that travel for {stored.segments:,} remote segments beside those that are decoded",
        "",
        Unit.PERCENT,
        beside,
        beside,
        beside,
        f"{sent / 1e6:,.1f} MB, {taken.seconds:.1f} s for the run; requests: "
        + ", ".join(f"{count:,} of {name}" for name, count in asked.items())
        + f"; the next run: {later / 1e6:,.1f} MB, "
        + ", ".join(f"{asked_later[name] - count:,} of {name}" for name, count in asked.items()),
        f"{stored.log_bytes / 1e6:,.1f} MB of objects, {stored.segment_bytes / 1e6:,.1f} MB of segments",
        1,
        0.1,
    )


def _requests(gateway: Gateway) -> dict[str, int]:
    """Requests so far, by what they are about. A page of a listing may begin after the name of an object."""
    suffixes = {"objects": ".log", "manifests": ".rsm-manifest"}
    asked = {name: gateway.requests(suffix)["GetObject"] for name, suffix in suffixes.items()}
    return asked | {"listings": gateway.requests().total() - sum(asked.values())}


def _store(tier: Path, logs: Path, segments_each: int) -> _Bucket:
    """Store the remote segments of all partitions, and write the log directory of their broker."""
    source, events, marks, starts = LogDirectory(logs), [], {}, {}
    first = tier / f"{_TOPIC}-{TOPIC_ID}" / "0"
    log_bytes = size = 0
    for number in range(segments_each):
        content = b"".join(_batch(number * _RECORDS + at * _VALUES) for at in range(_BATCHES))
        objects = remote_objects.stored_segment(
            content, {"offset": b""}, chunk_size=_CHUNK_BYTES, compressed=True, is_encrypted=True
        )
        name = f"{number * _RECORDS:020d}"
        _put(first / f"{name}-{_uuid(number, 0)[1]}.log", objects.log)
        _put(first / f"{name}-{_uuid(number, 0)[1]}.indexes", objects.indexes)
        _put(first / f"{name}-{_uuid(number, 0)[1]}.rsm-manifest", objects.manifest)
        log_bytes, size = log_bytes + len(objects.log), len(content)
    for partition in range(PARTITIONS):
        end = segments_each * _RECORDS
        local = source.partition(f"{_TOPIC}-{partition}")
        (local.path / f"{end:020d}.log").write_bytes(_batch(end))
        marks[f"{_TOPIC}_{partition}"], starts[f"{_TOPIC}_{partition}"] = end + _VALUES, 0
        for number in range(segments_each):
            (_, ours), (uuid, text) = _uuid(number, 0), _uuid(number, partition)
            for suffix in (".log", ".indexes", ".rsm-manifest") if partition else ():
                there = tier / f"{_TOPIC}-{TOPIC_ID}" / str(partition) / f"{number * _RECORDS:020d}-{text}{suffix}"
                there.parent.mkdir(parents=True, exist_ok=True)
                os.link(first / f"{number * _RECORDS:020d}-{ours}{suffix}", there)
            events += _events(partition, uuid, number * _RECORDS, size)
    metadata = source.partition("__remote_log_metadata-0", "DDDDDDDDDDDDDDDDDDDDDA")
    (metadata.path / f"{0:020d}.log").write_bytes(
        b"".join(
            handmade.simple_batch(at, [(None, event) for event in events[at : at + 100]])
            for at in range(0, len(events), 100)
        )
    )
    source.high_watermarks(**marks, __remote_log_metadata_0=len(events))
    source.checkpoint("log-start", **starts)
    return _Bucket(segments_each * PARTITIONS, log_bytes * PARTITIONS, segments_each * PARTITIONS * size)


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.setxattr(path, "user.etag", f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'.encode())


def _batch(base: int) -> bytes:
    """A batch of random values that begin with their numbers in the segment. All segments have the same values."""
    first = base % _RECORDS
    rest = random.Random(first)
    numbers = range(first, first + _VALUES)
    rows = [(b"k", struct.pack(">q", number) + rest.randbytes(_VALUE_BYTES - 8)) for number in numbers]
    return handmade.simple_batch(base, rows, base_timestamp=1_700_000_000_000, leader_epoch=0)


def _uuid(number: int, partition: int) -> tuple[bytes, str]:
    """The id of a segment, as bytes and as text."""
    uuid = hashlib.sha256(b"%d %d" % (number, partition)).digest()[:16]
    return uuid, base64.urlsafe_b64encode(uuid).decode().rstrip("=")


def _events(partition: int, uuid: bytes, start: int, size: int) -> list[bytes]:
    """The two records of the metadata topic about a segment: its copy began, and ended."""
    topic_id = base64.urlsafe_b64decode(TOPIC_ID + "==")
    place = bytes([len(_TOPIC) + 1]) + _TOPIC.encode() + topic_id + struct.pack(">i", partition) + b"\0"
    times = struct.pack(">qqiqq", start, start + _RECORDS - 1, 1, 1_700_000_000_000, 1_700_000_000_500)
    epochs = b"\x02" + struct.pack(">iq", 0, start) + b"\0"
    begun = b"\x01\x00\x00" + place + uuid + b"\0" + times + epochs + struct.pack(">i", size) + b"\0\0\0"
    state = struct.pack(">iq", 1, 1_700_000_001_000) + b"\0" + struct.pack(">b", _FINISHED) + b"\0"
    return [begun, b"\x01\x01\x00" + place + uuid + b"\0" + state]


def _compare(lake: Path, segments_each: int) -> None:
    """Every offset of every partition once, with the value that its batch has there."""
    seen = np.zeros((PARTITIONS, (segments_each * _RECORDS) + _VALUES), np.int64)
    for name in DeltaTable(f"{lake}/tables/records").file_uris():
        rows = pq.read_table(
            name, columns=["partition", "offset", "value"], read_dictionary=["value"], partitioning=None
        )
        for batch in rows.to_batches():
            values = batch.column("value")
            numbers = np.array([int.from_bytes(value[:8], "big") for value in values.dictionary.to_pylist()])
            offsets = batch.column("offset").to_numpy()
            if (numbers[values.indices.to_numpy()] != offsets % _RECORDS).any():
                raise Differ("an offset has the value of another one")
            np.add.at(seen, (batch.column("partition").to_numpy(), offsets), 1)
    if (seen != 1).any():
        raise Differ(f"{int((seen != 1).sum())} offsets are not there once")
