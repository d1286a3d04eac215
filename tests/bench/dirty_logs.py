"""A log that is to be cleaned: a partition directory of small records of which about two in five are the last of their
key, made from `blocks` and `segments` and kept in ``$LOGLAKE_HOME/bench``.

Records are of 10 to 100 bytes. Keys are drawn evenly, 0.45 as many as there are records, so that they lie everywhere;
one value in a hundred is null. Segments hold 64 MiB of records; a last one of a few batches is the active one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.bench.blocks import Block, Numbers, beside, chosen, constant, decimal, hexadecimal
from tests.bench.corpora import MIB, SEED, home
from tests.bench.segments import FIRST_TIMESTAMP, Piece, v2_batches
from tests.bench.shapes import Rows

SEGMENT_MIB = 64
RECORD_BYTES = 62
"""About what a record takes, for the number of keys."""
KEYS_A_RECORD = 0.45
_BATCH_BYTES = 16_384
_ROWS_AT_ONCE = 100_000
_WORDS = tuple(b"click view cart buy search login logout scroll hover share order refund".split())
_VERSION = 2


@dataclass(frozen=True, slots=True)
class DirtyLog:
    """A partition directory and what is in it. raw_bytes: of the record sections, uncompressed. last_of_key: of each
    segment, but for the active one, how many of its records are the newest of their key."""

    path: Path
    size: int
    records: int
    raw_bytes: int
    segments: int
    last_of_key: tuple[int, ...]


def dirty_log(codec: str, mib: int) -> DirtyLog:
    """The log with at least so many MiB of records, uncompressed; it is made if it is not there yet."""
    folder = home() / f"dirty-{_VERSION}-{codec}-{mib}mib"
    facts = folder / "facts.json"
    if not facts.is_file():
        _make(codec, mib, folder)
    known = json.loads(facts.read_text())
    return DirtyLog(folder / "dirty-0", **known | {"last_of_key": tuple(known["last_of_key"])})


def rows(random: np.random.Generator, first: int, keys: Numbers) -> Rows:
    """Records from number `first` on, with keys of these numbers."""
    count = len(keys)
    size = random.integers(0, 40, count)
    filler = hexadecimal(random, count, 40)
    values = beside(
        [
            constant(b'{"n":', count),
            decimal(np.arange(first, first + count), 9),
            constant(b',"e":"', count),
            chosen(_WORDS, random.integers(0, len(_WORDS), count)),
            Block(filler.cells, np.arange(40) < size[:, None]),
            constant(b'"}', count),
        ]
    )
    return Rows(
        keys=beside([constant(b"k", count), decimal(keys, 9)]),
        values=values,
        has_key=np.ones(count, bool),
        has_value=random.random(count) >= 0.01,
        steps_ms=random.integers(0, 3, count),
        headers=(),
    )


def _make(codec: str, mib: int, folder: Path) -> None:
    random = np.random.default_rng([SEED, mib])
    directory = folder / "dirty-0"
    directory.mkdir(parents=True, exist_ok=True)
    keys = int(mib * MIB / RECORD_BYTES * KEYS_A_RECORD)
    newest = np.full(keys, -1, np.int64)
    bases: list[int] = []
    offset = size = raw = 0
    while raw < mib * MIB:
        most = min(SEGMENT_MIB * MIB, mib * MIB - raw)
        written = 0
        bases.append(offset)
        with (directory / f"{offset:020d}.log").open("wb") as stream:
            while written < most:
                drawn = random.integers(0, keys, _ROWS_AT_ONCE)
                made = piece(random, offset, drawn, codec, whole=False)
                stream.write(made.content)
                count = made.totals.records
                np.maximum.at(newest, drawn[:count], np.arange(offset, offset + count))
                offset += count
                written += made.raw_bytes
                size += len(made.content)
        raw += written
    last = piece(random, offset, random.integers(0, keys, 100), codec, whole=True)
    (directory / f"{offset:020d}.log").write_bytes(last.content)
    newest = newest[newest >= 0]
    known = {
        "size": size,
        "records": offset,
        "raw_bytes": raw,
        "segments": len(bases),
        "last_of_key": np.bincount(np.searchsorted(bases, newest, "right") - 1, minlength=len(bases)).tolist(),
    }
    unfinished = folder / "facts.tmp"
    unfinished.write_text(json.dumps(known))
    unfinished.replace(folder / "facts.json")


def piece(random: np.random.Generator, offset: int, keys: Numbers, codec: str, *, whole: bool) -> Piece:
    drawn = rows(random, offset, keys)
    return v2_batches(drawn, offset, FIRST_TIMESTAMP + 2 * offset, codec, _BATCH_BYTES, whole=whole)
