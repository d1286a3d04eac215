"""The segments that are measured, by name; each is made once and kept in ``$LOGLAKE_HOME/bench``.

A folder there holds everything of one recipe (a digest of the modules that make it) and size; a segment lies in a
partition directory of its own, as `loglake` and Kafka's tools expect it, beside a file with what is in it.

``python -m tests.bench.corpora small-lz4-16k --mib 8`` makes one and prints its path.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from tests.bench import blocks, segments, shapes
from tests.bench.shapes import SHAPES
from tests.bench.totals import Totals

SEED = 7
MIB = 1 << 20
SEGMENT_NAME = "00000000000000000000.log"
BATCH_BYTES = {"16k": 16_384, "1m": 1_000_000}
_DRAW_BYTES = 16 * MIB


@dataclass(frozen=True, slots=True)
class Corpus:
    """A kind of segment: its name is `shape-codec-batch`, `shape-codec-v1`."""

    shape: str
    codec: str = "none"
    batch: str = "16k"
    magic: int = 2

    @property
    def name(self) -> str:
        return f"{self.shape}-{self.codec}-{self.batch}" + ("" if self.magic == 2 else f"-v{self.magic}")


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment file and what is in it."""

    corpus: Corpus
    path: Path
    size: int
    """In bytes."""
    batches: int
    raw_bytes: int
    """Of the record sections, uncompressed."""
    totals: Totals


def named(name: str) -> Corpus:
    """The corpus of that name.

    :raises ValueError: there is no such corpus.
    """
    shape, codec, batch, *version = name.split("-")
    if shape not in SHAPES or codec not in segments.CODECS or batch not in BATCH_BYTES or version not in ([], ["v1"]):
        raise ValueError(f"there is no corpus {name!r}; write e.g. small-lz4-16k or small-none-16k-v1")
    return Corpus(shape, codec, batch, 1 if version else 2)


def home() -> Path:
    """Where the segments are kept."""
    return Path(os.environ.get("LOGLAKE_HOME") or ".loglake").absolute() / "bench"


def segment(corpus: Corpus, mib: int, folder: Path | None = None) -> Segment:
    """The segment with at least so many MiB of records, uncompressed; it is made if it is not there yet."""
    folder = folder or home() / f"{_recipe()}-{mib}mib"
    directory, facts = folder / f"{corpus.name}-0", folder / f"{corpus.name}.json"
    if not facts.is_file():
        _make(corpus, mib * MIB, directory, facts)
    known = json.loads(facts.read_text())
    totals = Totals(**known.pop("totals"))
    return Segment(corpus, directory / SEGMENT_NAME, totals=totals, **known)


def _make(corpus: Corpus, raw_bytes: int, directory: Path, facts: Path) -> None:
    shape = SHAPES[corpus.shape]
    random = np.random.default_rng([SEED, *corpus.shape.encode()])
    directory.mkdir(parents=True, exist_ok=True)
    size, batches, raw, totals = 0, 0, 0, Totals()
    batch_bytes = BATCH_BYTES[corpus.batch]
    with (directory / SEGMENT_NAME).open("wb") as stream:
        for piece in segments.pieces(
            lambda first, count: shape.rows(random, first, count),
            max(min(_DRAW_BYTES, raw_bytes) // shape.row_bytes, 1),
            corpus.magic,
            corpus.codec,
            batch_bytes,
            raw_bytes,
        ):
            stream.write(piece.content)
            size += len(piece.content)
            batches += piece.batches
            raw += piece.raw_bytes
            totals += piece.totals
    known = {"size": size, "batches": batches, "raw_bytes": raw, "totals": asdict(totals)}
    unfinished = facts.with_suffix(".tmp")
    unfinished.write_text(json.dumps(known))
    unfinished.replace(facts)


def _recipe() -> str:
    digest = hashlib.sha256(np.__version__.encode())
    for module in (blocks, shapes, segments):
        digest.update(Path(str(module.__file__)).read_bytes())
    return digest.hexdigest()[:12]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.corpora")
    parser.add_argument("name", type=named)
    parser.add_argument("--mib", type=int, default=200)
    arguments = parser.parse_args()
    made = segment(arguments.name, arguments.mib)
    sys.stdout.write(f"{made.path}\n{made}\n")


if __name__ == "__main__":
    main()
