"""Whole log directories, damaged: bytes, names, sizes, links, holes, files that are gone or of another kind.

A directory is a function of (seed, number) alone. It starts from a log of `header_bits` with all its side files, and is
injured in one to four of the ways below. What is written in it says nothing true in the end; so nothing is claimed of
what is read from it but that reading ends, soon and in little memory.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

from tests import handmade
from tests.fuzz import header_bits
from tests.fuzz.mutator import mutant

NAME = "orders-0"
HOLE = 16 << 20
"""Bytes of a hole, at most: larger ones have tests of their own."""

_NUMBERS = (0, 1, -1, 5, 127, 1 << 15, (1 << 31) - 1, -(1 << 31), 1 << 32, (1 << 63) - 1, -(1 << 63), (1 << 63) - 2)
_TEXTS = (
    b"",
    b"0",
    b"0\n",
    b"1\n0\n",
    b"0\n2147483647\n",
    b"0\n-1\n",
    b"0\n1\norders 0 9223372036854775807\n",
    b"0\n1\norders 0 9223372036854775808\n",
    b"0\n1\norders 0 -1\n",
    b"0\n2\norders 0 5\norders 0 7\n",
    b"0\n1\n3 9223372036854775807\n",
    b"0\n2\n5 9\n3 2\n",
    b"0\n1\n" + b"9" * 5000 + b" 0\n",
    b"\xff\xfe\x00",
    bytes(4096),
    b"version: 0\ntopic_id: \n",
    b"version=1\ncluster.id=\n",
    b"a" * 200_000,
)
_PLACES = ((0, ">q"), (8, ">i"), (12, ">i"), (16, ">b"), (21, ">h"), (23, ">i"), (27, ">q"), (35, ">q"), (43, ">q"))
_NAMES = (
    "{base:020d}.log",
    "{base:020d}.index",
    "{base:020d}.log.cleaned",
    "{base:020d}.log.swap",
    "{base:020d}.log.deleted",
    "{base:020d}.snapshot",
    "{base:020d}.timeindex.swap",
    "{base:020d}-0000000000.checkpoint",
    "{base:019d}.log",
    "{base:021d}.log",
    "-{base:019d}.log",
    "{base:020d}.log.kafka_cleanshutdown",
    ".log",
    "x.log",
    "leader-epoch-checkpoint",
)
_DIRECTORIES = (
    "orders-1",
    "orders-2147483648",
    "orders--1",
    "-0",
    "orders-00",
    "orders-0.0123456789abcdef0123456789abcdef-delete",
    "orders-0.0123456789abcdef0123456789abcdef-future",
    "orders-0.0123456789abcdef0123456789abcdef-stray",
    "__cluster_metadata-0",
    "__consumer_offsets-0",
    "o" * 240 + "-0",
)

Injury = Callable[[Path, random.Random], None]


def make(seed: int, number: int, root: Path) -> list[str]:
    """Make that directory below a root that does not exist; what was done to it."""
    draw = random.Random(f"{seed}:{number}")
    directory = header_bits.log(draw.randrange(100), draw.choice((2, 2, 2, 0, 1))).write(root)
    _side_files(directory, draw)
    ways = []
    for _ in range(draw.randint(1, 4)):
        injury = draw.choice(_WEIGHTED)
        try:
            injury(root, draw)
            ways.append(injury.__name__.strip("_"))
        except OSError as error:  # an injury before it has taken away what this one needs
            ways.append(f"{injury.__name__.strip('_')} failed: {type(error).__name__}")
    return ways


def _side_files(directory: Path, draw: random.Random) -> None:
    """What the log of `header_bits` goes without: time indexes and a producer snapshot."""
    bases = sorted(int(path.stem) for path in directory.glob("*.log"))
    for base in bases:
        (directory / f"{base:020d}.timeindex").write_bytes(struct.pack(">qi", 1_700_000_000_000 + base, 0))
    entry = struct.pack(">qhiqiqiq", 9, 0, draw.randrange(5), bases[-1] - 1, 0, 1_700_000_000_000, 0, -1)
    body = struct.pack(">i", 1) + entry
    snapshot = struct.pack(">hI", 1, handmade.crc32c(body)) + body
    (directory / f"{bases[-1]:020d}.snapshot").write_bytes(snapshot)


def _files(root: Path) -> list[Path]:
    """Regular files, in an order that depends on names alone."""
    return sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())


def _any_file(root: Path, draw: random.Random) -> Path:
    files = _files(root)
    if not files:
        raise FileNotFoundError
    return draw.choice(files)


def _any_segment(root: Path, draw: random.Random) -> Path:
    segments = [path for path in _files(root) if path.suffix == ".log"]
    if not segments:
        raise FileNotFoundError
    return draw.choice(segments)


def _base(draw: random.Random) -> int:
    return draw.choice((0, 1, 3, 7, 12, 20, 100, 1 << 31, 1 << 32, (1 << 63) - 1, (1 << 63) - 3, 10**19))


# -- the ways


def _flip_bits(root: Path, draw: random.Random) -> None:
    path = _any_file(root, draw)
    data = path.read_bytes()
    for _ in range(draw.choice((1, 1, 2, 8))):
        if data:
            data = handmade.flip(data, draw.randrange(len(data)), draw.randrange(8))
    path.write_bytes(data)


def _flip_in_segment(root: Path, draw: random.Random) -> None:
    path = _any_segment(root, draw)
    data = path.read_bytes()
    if data:
        path.write_bytes(handmade.flip(data, draw.randrange(len(data)), draw.randrange(8)))


def _edit_bytes(root: Path, draw: random.Random) -> None:
    path = _any_file(root, draw)
    data = path.read_bytes()
    at, size = draw.randrange(len(data) + 1), draw.choice((1, 4, 61, 500))
    piece = draw.choice((draw.randbytes(size), bytes(size), b"\xff" * size, data[at : at + size]))
    kept = draw.choice((at, at + size))
    path.write_bytes(data[:at] + piece + data[kept:])


def _cut(root: Path, draw: random.Random) -> None:
    path = _any_file(root, draw)
    os.truncate(path, draw.randrange(path.stat().st_size + 1))


def _batch_positions(data: bytes) -> list[int]:
    positions, position = [], 0
    while position + 61 <= len(data) and handmade.size_of(data, position) >= 14:
        positions.append(position)
        position += handmade.size_of(data, position)
    return positions


def _lying_field(root: Path, draw: random.Random) -> None:
    """A field of a batch is a number at a border, the checksum right or not."""
    path = _any_segment(root, draw)
    data = path.read_bytes()
    positions = _batch_positions(data)
    if not positions:
        return
    position = draw.choice(positions)
    at, code = draw.choice(_PLACES)
    bits = 8 * struct.calcsize(code)
    number = draw.choice(_NUMBERS) % (1 << bits)
    changed = handmade.patch(data, position + at, number.to_bytes(bits // 8, "big"))
    end = position + handmade.size_of(data, position)
    if draw.random() < 0.8 and data[position + 16] == 2 and end <= len(data):
        changed = handmade.fix_crc(changed, position, end)
    path.write_bytes(changed)


def _insert_mutants(root: Path, draw: random.Random) -> None:
    """Batches with a right checksum and wrong content, between others or after them."""
    path = _any_segment(root, draw)
    data = path.read_bytes()
    at = draw.choice([*_batch_positions(data), len(data)])
    strange = b"".join(mutant(draw.randrange(100), draw.randrange(10_000)).data for _ in range(draw.randint(1, 3)))
    if draw.random() < 0.7:
        offset = draw.choice((int.from_bytes(data[at : at + 8], "big") if data else 0, draw.randrange(40)))
        strange = handmade.patch(strange, 0, (offset % (1 << 64)).to_bytes(8, "big"))
    path.write_bytes(data[:at] + strange + data[at:])


def _reorder(root: Path, draw: random.Random) -> None:
    """Batches of a segment in another order, some twice."""
    path = _any_segment(root, draw)
    data = path.read_bytes()
    batches = [data[at : at + handmade.size_of(data, at)] for at in _batch_positions(data)]
    if batches:
        path.write_bytes(b"".join(draw.choices(batches, k=len(batches) + draw.randint(-1, 2))))


def _false_text(root: Path, draw: random.Random) -> None:
    texts = [path for path in _files(root) if path.suffix in ("", ".metadata", ".properties")]
    if texts:
        draw.choice(texts).write_bytes(draw.choice(_TEXTS))


def _false_side_file(root: Path, draw: random.Random) -> None:
    path = _any_file(root, draw)
    size = draw.choice((0, 1, 8, 12, 34, 800, 100_000))
    numbers = b"".join(struct.pack(">q", draw.choice(_NUMBERS)) for _ in range(size // 8))
    path.write_bytes(draw.choice((draw.randbytes(size), bytes(size), b"\xff" * size, numbers)))


def _rename(root: Path, draw: random.Random) -> None:
    path = _any_file(root, draw)
    path.rename(path.with_name(draw.choice(_NAMES).format(base=_base(draw))))


def _copy(root: Path, draw: random.Random) -> None:
    path = _any_file(root, draw)
    shutil.copy(path, path.with_name(draw.choice(_NAMES).format(base=_base(draw))))


def _remove(root: Path, draw: random.Random) -> None:
    _any_file(root, draw).unlink()


def _hole(root: Path, draw: random.Random) -> None:
    """A file ends in a hole, or has one in the middle."""
    path = _any_segment(root, draw) if draw.random() < 0.7 else _any_file(root, draw)
    data = path.read_bytes()
    at = draw.choice((len(data), draw.randrange(len(data) + 1)))
    size = draw.choice((1, 17, 4096, 70_000, 1 << 20, HOLE))
    path.write_bytes(data[:at])
    os.truncate(path, at + size)
    with path.open("ab") as file:
        file.write(data[at:])


def _link(root: Path, draw: random.Random) -> None:
    path = _any_file(root, draw)
    target = draw.choice((path.name, "/dev/null", "/dev/zero", "/nowhere", ".", str(_any_file(root, draw))))
    path.unlink()
    path.symlink_to(target)


def _other_kind(root: Path, draw: random.Random) -> None:
    path = _any_file(root, draw)
    path.unlink()
    if draw.random() < 0.5:
        os.mkfifo(path)
    else:
        path.mkdir()
        (path / "within").write_bytes(b"x")


def _other_directory(root: Path, draw: random.Random) -> None:
    """The partition once more under another name, or a link to it."""
    copy = root / draw.choice(_DIRECTORIES)
    if draw.random() < 0.5:
        copy.symlink_to(draw.choice((NAME, ".", copy.name)))
    else:
        shutil.copytree(root / NAME, copy, symlinks=True, copy_function=_copied)


def _copied(source: str, target: str) -> str:
    return str(shutil.copy(source, target)) if os.path.isfile(source) else source


_WEIGHTED: tuple[Injury, ...] = (
    *(_flip_bits, _flip_in_segment, _flip_in_segment, _edit_bytes, _edit_bytes, _cut, _lying_field, _lying_field),
    *(_lying_field, _insert_mutants, _insert_mutants, _reorder, _false_text, _false_text, _false_side_file, _rename),
    *(_copy, _remove, _hole, _link, _other_kind, _other_directory),
)
