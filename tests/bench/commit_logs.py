"""A log of `__consumer_offsets` with commits of offsets, and what is in it; made once and kept as `corpora` are.

Batches are those of a coordinator: without a producer, some 50 records. Values are of version 3, and of version 4 with
the topic id. Of a thousand records three are another thing: two delete an offset, and one is of version 1, which has no
leader epoch. Keys are drawn evenly from 1,000 groups, 100 topics and 50 partitions, but a group has one topic.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import asdict, dataclass
from pathlib import Path

import crc32c
import numpy as np

from tests.bench import blocks, segments
from tests.bench.blocks import Block, Numbers, beside, big_endian, chosen, constant, decimal
from tests.bench.corpora import SEED, SEGMENT_NAME, home
from tests.bench.segments import v2_batches
from tests.bench.shapes import Rows

_AT_ONCE, _BATCH_BYTES = 200_000, 4_500
_TEXTS = (b"", b"", b"", b'{"host":"consumer-1"}')
_NO_PRODUCER = struct.pack(">qhi", -1, -1, -1)
_PRODUCER_AT, _CHECKED_FROM, _CHECKSUM_AT = 43, 21, 17


@dataclass(frozen=True, slots=True)
class CommitTotals:
    """Sums over the commits. Those of 64-bit numbers wrap."""

    records: int
    commits: int
    deletions: int
    offset_sum: int
    partition_sum: int
    time_sum: int
    without_epoch: int
    text_bytes: int


@dataclass(frozen=True, slots=True)
class CommitLog:
    """A log directory with one log, and what is in it."""

    directory: Path
    nbytes: int
    totals: CommitTotals

    @property
    def segment(self) -> Path:
        return self.directory / "__consumer_offsets-0" / SEGMENT_NAME


def commit_log(records: int) -> CommitLog:
    """The log with at least so many records; it is made if it is not there yet."""
    digest = hashlib.sha256(np.__version__.encode())
    for path in (blocks.__file__, segments.__file__, __file__):
        digest.update(Path(str(path)).read_bytes())
    directory = home() / f"{digest.hexdigest()[:12]}-{records}commits"
    facts = directory / "facts.json"
    if not facts.is_file():
        _make(records, directory, facts)
    known = json.loads(facts.read_text())
    return CommitLog(directory, known["nbytes"], CommitTotals(**known["totals"]))


def _make(records: int, directory: Path, facts: Path) -> None:
    random = np.random.default_rng([SEED, records])
    path = directory / "__consumer_offsets-0" / SEGMENT_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    sums = np.zeros(8, np.int64)
    offset = 0
    with path.open("wb") as stream:
        while offset < records:
            rows, counted = _rows(random, offset, min(_AT_ONCE, records - offset))
            piece = v2_batches(rows, offset, segments.FIRST_TIMESTAMP + offset, "none", _BATCH_BYTES, whole=True)
            stream.write(_of_a_coordinator(piece.content))
            sums += counted
            offset += len(rows)
    facts.write_text(json.dumps({"nbytes": path.stat().st_size, "totals": asdict(CommitTotals(*sums.tolist()))}))


def _rows(random: np.random.Generator, first: int, count: int) -> tuple[Rows, Numbers]:
    """Records, and the numbers of `CommitTotals` for them."""
    group, partition = random.integers(0, 1000, count), random.integers(0, 50, count)
    topic = group % 100
    kind = random.choice(4, count, p=[0.497, 0.5, 0.002, 0.001])  # version 3, version 4, a deletion, version 1
    offsets = random.integers(0, 1 << 40, count)
    epochs = random.integers(-1, 20, count)
    times = segments.FIRST_TIMESTAMP + first + np.arange(count)
    text = random.integers(0, len(_TEXTS), count)
    group_name = beside([constant(b"group-", count), decimal(group, 4)])
    topic_name = beside([constant(b"orders-", count), decimal(topic, 3)])
    keys = beside([constant(b"\0\1", count), _named(group_name), _named(topic_name), big_endian(partition, 4)])
    texts = chosen(_TEXTS, text)
    metadata, compact = _named(texts), beside([Block(big_endian(texts.sizes() + 1, 1).cells), texts])
    start, end = big_endian(offsets, 8), big_endian(times, 8)
    topic_id = beside([constant(b"\x01\x00\x10" + bytes(14), count), big_endian(topic, 2)])
    values = beside(
        [
            beside([constant(b"\0\3", count), start, big_endian(epochs, 4), metadata, end]).only(kind == 0),
            beside([constant(b"\0\4", count), start, big_endian(epochs, 4), compact, end, topic_id]).only(kind == 1),
            beside([constant(b"\0\1", count), start, metadata, end, end]).only(kind == 3),
        ]
    )
    is_commit = kind != 2
    rows = Rows(keys, values, np.ones(count, bool), is_commit, np.ones(count, np.int64), ())
    has_epoch = (kind < 2) & (epochs >= 0)
    counted = [
        count,
        is_commit.sum(),
        (~is_commit).sum(),
        offsets[is_commit].sum(),
        partition.sum(),
        times[is_commit].sum(),
        (~has_epoch).sum(),
        texts.sizes()[is_commit].sum(),
    ]
    return rows, np.array(counted, np.int64)


def _named(text: Block) -> Block:
    """A text with its length in two bytes."""
    return beside([big_endian(text.sizes(), 2), text])


def _of_a_coordinator(content: bytes) -> bytearray:
    """The same batches without a producer."""
    changed, at = bytearray(content), 0
    while at < len(changed):
        end = at + 12 + int.from_bytes(changed[at + 8 : at + 12], "big")
        changed[at + _PRODUCER_AT : at + _PRODUCER_AT + len(_NO_PRODUCER)] = _NO_PRODUCER
        checksum = crc32c.crc32c(memoryview(changed)[at + _CHECKED_FROM : end])
        changed[at + _CHECKSUM_AT : at + _CHECKED_FROM] = checksum.to_bytes(4, "big")
        at = end
    return changed
