"""A fuzzer led by coverage, for runs of many hours: every engine on the same bytes, until it is stopped.

    uv pip install atheris                                      (not among the locked packages; Linux and macOS)
    python -m tests.fuzz.atheris_entry CORPUS [-max_total_time=3600 …]

CORPUS is a folder of inputs, filled with the canonical batches if it is empty; inputs that reach new code are added to
it. Further options are libFuzzer's. Fails, and writes the input to the working directory, if bytes are not accounted
for, an engine gives other rows or stretches than the reference, or anything is raised at all.

    input   byte 0    bit 0: the segment is sealed · bit 1: lengths and checksums are made right first, so that
                      what is changed reaches the decoders after them
            the rest  the segment's bytes, its base offset that of its first batch, if that is one a file can have
"""

from __future__ import annotations

import struct
import sys
from itertools import pairwise
from pathlib import Path

from tests.fuzz.canonical import CANONICAL

SEALED, REPAIRED = 1, 2
_LARGEST_BASE = 1 << 62
_SMALLEST = 26
"""Bytes of a v0 message with null key and null value."""


def repaired_segment(data: bytes) -> bytes:
    """Every batch's checksum made right, as far as the sizes of batches lead; the last one ends where the bytes end."""
    from tests.fuzz.mutator import repaired

    parts, position = [], 0
    while len(data) - position >= _SMALLEST:
        (length,) = struct.unpack_from(">i", data, position + 8)
        size = length + 12
        if not _SMALLEST <= size <= len(data) - position:
            size = len(data) - position
        parts.append(repaired(data[position : position + size]))
        position += size
    return b"".join(parts) + data[position:]


def try_one(data: bytes) -> None:
    """One input. Raises AssertionError if an engine differs, and whatever else is raised."""
    from tests.fuzz.engines_compared import disagreeing
    from tests.fuzz.injuries import see

    if not data:
        return
    flags, segment = data[0], data[1:]
    if flags & REPAIRED:
        segment = repaired_segment(segment)
    base_offset = int.from_bytes(segment[:8], "big", signed=True)
    if not 0 <= base_offset <= _LARGEST_BASE:
        base_offset = 0
    sealed = bool(flags & SEALED)
    _, _, accounting = see(segment, base_offset, sealed=sealed)
    total = accounting.valid + accounting.quarantined + accounting.tail + accounting.padding
    assert total == accounting.file_size == len(segment), "bytes are not accounted for"
    different = disagreeing(segment, base_offset, sealed=sealed)
    assert not different, f"{', '.join(different)} differs from the reference"


def fill(corpus: Path) -> None:
    """Put the canonical batches, one and two at a time, into an empty corpus."""
    corpus.mkdir(parents=True, exist_ok=True)
    if any(corpus.iterdir()):
        return
    for number, (batch, other) in enumerate(pairwise(CANONICAL)):
        (corpus / f"{number}-one").write_bytes(bytes([SEALED | REPAIRED]) + batch.data)
        (corpus / f"{number}-two").write_bytes(bytes([REPAIRED]) + batch.data + other.data)


def main(arguments: list[str]) -> int:
    """Fuzz until libFuzzer's options say stop."""
    try:
        import atheris
    except ImportError:
        sys.stderr.write("atheris is not installed: uv pip install atheris\n")
        return 3
    if arguments and not arguments[0].startswith("-"):
        fill(Path(arguments[0]))
    # The kernels' sources are what Numba compiles; instrumented they could not be.
    with atheris.instrument_imports(include=["logcore"], exclude=["logcore.columns.kernels"]):
        import tests.fuzz.engines_compared
        import tests.fuzz.injuries  # noqa: F401
        from logcore.columns.engines import available
    sys.stderr.write(f"engines: {', '.join(available())}\n")
    atheris.Setup([sys.argv[0], *arguments], try_one)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
