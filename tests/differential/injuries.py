"""What may happen to a partition directory in front of a start: each a change of its files, with words for it."""

from __future__ import annotations

import random
from collections.abc import Callable

from logcore.logs.partition_directory import PartitionFile
from tests.differential.directories import Files

Injury = Callable[[random.Random, Files], str | None]
"""Changes the files in place and says what it did; None if there was nothing to do it to."""


def cut(draw: random.Random, files: Files) -> str | None:
    """The end of a log is lost."""
    name = _one_log(draw, files)
    if name is None:
        return None
    size = draw.randint(1, min(200, len(files[name].content)))
    _change(files, name, bytes(files[name].content[:-size]))
    return f"{size} bytes cut off {name}"


def flip(draw: random.Random, files: Files) -> str | None:
    """A bit of a log is another."""
    name = _one_log(draw, files)
    if name is None:
        return None
    content = bytearray(files[name].content)
    position = draw.randrange(len(content))
    bit = draw.randrange(8)
    content[position] ^= 1 << bit
    _change(files, name, bytes(content))
    return f"bit {bit} of byte {position} of {name} flipped"


def zeros(draw: random.Random, files: Files) -> str | None:
    """Bytes that were allocated and not written."""
    name = _one_log(draw, files)
    if name is None:
        return None
    size = draw.randint(1, 60)
    _change(files, name, bytes(files[name].content) + bytes(size))
    return f"{size} zeros behind {name}"


def without_indexes(draw: random.Random, files: Files) -> str | None:
    return _without(files, [name for name in files if name.endswith("index")], "no indexes")


def without_an_index(draw: random.Random, files: Files) -> str | None:
    names = [name for name in sorted(files) if name.endswith(("index", "timeindex"))]
    return _without(files, draw.sample(names, 1), "") if names else None


def without_snapshots(draw: random.Random, files: Files) -> str | None:
    return _without(files, [name for name in files if name.endswith(".snapshot")], "no snapshots")


def without_a_snapshot(draw: random.Random, files: Files) -> str | None:
    names = [name for name in sorted(files) if name.endswith(".snapshot")]
    return _without(files, draw.sample(names, 1), "") if names else None


def bad_snapshot(draw: random.Random, files: Files) -> str | None:
    """A bit of a snapshot is another; or its end is lost."""
    names = [name for name in sorted(files) if name.endswith(".snapshot")]
    if not names:
        return None
    name = draw.choice(names)
    content = bytearray(files[name].content)
    if draw.randrange(2):
        del content[draw.randrange(len(content)) :]
    else:
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    _change(files, name, bytes(content))
    return f"{name} damaged"


def without_epochs(draw: random.Random, files: Files) -> str | None:
    return _without(files, [name for name in files if name == "leader-epoch-checkpoint"], "")


def without_a_segment(draw: random.Random, files: Files) -> str | None:
    """A log is gone, its indexes are not."""
    names = [name for name in sorted(files) if name.endswith(".log")]
    return _without(files, draw.sample(names, 1), "") if len(names) > 1 else None


LEFT_BY_A_CRASH: tuple[Injury, ...] = (
    *(cut, flip, zeros, without_indexes, without_an_index, without_snapshots, without_a_snapshot),
    *(bad_snapshot, without_epochs, without_a_segment),
)
LEFT_UNDER_A_CLEAN_MARK: tuple[Injury, ...] = (
    *(without_indexes, without_an_index, without_snapshots, without_a_snapshot, bad_snapshot, without_a_segment),
)


def _one_log(draw: random.Random, files: Files) -> str | None:
    names = [name for name in sorted(files) if name.endswith(".log") and files[name].content]
    return draw.choice(names) if names else None


def _without(files: Files, names: list[str], words: str) -> str | None:
    for name in names:
        del files[name]
    return (words or f"without {', '.join(names)}") if names else None


def _change(files: Files, name: str, content: bytes) -> None:
    files[name] = PartitionFile(name, content, files[name].modified_ms)
