"""Log directories of very many small things: segments of one batch, batches of one record, partitions of few bytes.

A batch's checksum does not cover its base offset, so one batch, packed by hand, is used at every offset.
"""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np

from tests import handmade
from tests.broker_directory import LogDirectory

SEGMENTS_A_LOG = 100
PARTITIONS_A_TOPIC = 100
_RECORDS = 5
_ROWS = 150
_AT_ONCE = 1 << 20
_ROW = (b"user-00000001", b"a value of some bytes")


def segments(folder: Path, count: int) -> int:
    """So many segments of one batch each, in logs of up to 100; returns the number of records."""
    directory = LogDirectory(folder)
    batch = handmade.simple_batch(0, [_ROW] * _RECORDS, base_timestamp=1_700_000_000_000, leader_epoch=0)
    watermarks = {}
    for first in range(0, count, SEGMENTS_A_LOG):
        number, here = first // SEGMENTS_A_LOG, min(SEGMENTS_A_LOG, count - first)
        partition = directory.partition(f"many-{number}-0", _topic_id(number))
        for segment in range(here):
            base = segment * _RECORDS
            (partition.path / f"{base:020d}.log").write_bytes(_at(batch, base))
        watermarks[f"many-{number}_0"] = here * _RECORDS
    directory.high_watermarks(**watermarks)
    return count * _RECORDS


def batches(folder: Path, count: int) -> int:
    """One segment with so many batches of one record; returns the number of records."""
    directory = LogDirectory(folder)
    partition = directory.partition("tiny-0")
    batch = handmade.simple_batch(0, [_ROW], base_timestamp=1_700_000_000_000, leader_epoch=0)
    one = np.frombuffer(batch, np.uint8)
    with partition.roll(0).open("wb") as stream:
        for first in range(0, count, _AT_ONCE):
            offsets = np.arange(first, min(first + _AT_ONCE, count))
            rows = np.broadcast_to(one, (len(offsets), len(one))).copy()
            rows[:, :8] = offsets.astype(">i8").view(np.uint8).reshape(-1, 8)
            stream.write(rows.tobytes())
    directory.high_watermarks(tiny_0=count)
    return count


def partitions(folder: Path, count: int, segments_each: int = 3, records_each: int = 10) -> int:
    """So many partitions, 100 in a topic, of small segments of one batch each; returns the number of records."""
    directory = LogDirectory(folder)
    batch = handmade.simple_batch(0, [_ROW] * records_each, base_timestamp=1_700_000_000_000, leader_epoch=0)
    watermarks = {}
    for number in range(count):
        topic, at = divmod(number, PARTITIONS_A_TOPIC)
        partition = directory.partition(f"topic{topic}-{at}", _topic_id(topic))
        for base in range(0, segments_each * records_each, records_each):
            (partition.path / f"{base:020d}.log").write_bytes(_at(batch, base))
        watermarks[f"topic{topic}_{at}"] = segments_each * records_each
    directory.high_watermarks(**watermarks)
    return count * segments_each * records_each


def add_segments(folder: Path, count: int, every: int, segments_each: int = 3, records_each: int = 10) -> int:
    """Add a segment of one batch to one in `every` partitions that `partitions` made; returns the number of records."""
    batch = handmade.simple_batch(0, [_ROW] * records_each, base_timestamp=1_700_000_000_000, leader_epoch=0)
    base, watermarks, grown = segments_each * records_each, {}, 0
    for number in range(count):
        topic, at = divmod(number, PARTITIONS_A_TOPIC)
        watermarks[f"topic{topic}_{at}"] = base
        if number % every == 0:
            (folder / f"topic{topic}-{at}" / f"{base:020d}.log").write_bytes(_at(batch, base))
            watermarks[f"topic{topic}_{at}"] += records_each
            grown += records_each
    LogDirectory(folder).high_watermarks(**watermarks)
    return grown


def spread(folder: Path, mib: int, count: int) -> int:
    """About so many MiB in so many partitions of one segment each; returns the number of records."""
    directory = LogDirectory(folder)
    for number in range(count):
        directory.partition(f"spread-{number}").roll(0)
    return grow(folder, mib, count)


def grow(folder: Path, mib: int, count: int) -> int:
    """Add about so many MiB to the partitions that `spread` made; returns the number of added records."""
    rows = [(b"user-%08d" % number, (b"%016d" % (number * 2654435761 % 10**16)) * 6) for number in range(_ROWS)]
    batch = handmade.simple_batch(0, rows, base_timestamp=1_700_000_000_000, leader_epoch=0)
    each = max(1, (mib << 20) // len(batch) // count)
    ends = {}
    for number in range(count):
        path = folder / f"spread-{number}" / f"{0:020d}.log"
        begun = path.stat().st_size // len(batch)
        with path.open("ab") as stream:
            for at in range(begun, begun + each):
                stream.write(_at(batch, at * _ROWS))
        ends[f"spread_{number}"] = (begun + each) * _ROWS
    LogDirectory(folder).high_watermarks(**ends)
    return count * each * _ROWS


def _topic_id(number: int) -> str:
    """Another one for each topic, as Kafka writes it: topics of one id would be one log."""
    return base64.urlsafe_b64encode((1000 + number).to_bytes(16, "big")).decode().rstrip("=")


def _at(batch: bytes, base_offset: int) -> bytes:
    return base_offset.to_bytes(8, "big") + batch[8:]
