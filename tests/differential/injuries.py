"""What may happen to a partition directory before a start: each is a change of its files, with words for it."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

from logcore.logs.model.partition_directory import PartitionFile
from logcore.records.varint import Buffer
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


def garbage(draw: random.Random, files: Files) -> str | None:
    """Foreign bytes after a log."""
    name = _one_log(draw, files)
    if name is None:
        return None
    size = draw.randint(1, 200)
    _change(files, name, bytes(files[name].content) + draw.randbytes(size))
    return f"{size} bytes of something else behind {name}"


def batch_twice(draw: random.Random, files: Files) -> str | None:
    """A batch is there once more, after another one: offsets do not rise."""
    return _with_batches(draw, files, lambda batches: batches.append(draw.choice(batches)), "a batch twice in")


def batch_lost(draw: random.Random, files: Files) -> str | None:
    return _with_batches(draw, files, lambda batches: batches.pop(draw.randrange(len(batches))), "a batch is gone from")


def batch_of_another_epoch(draw: random.Random, files: Files) -> str | None:
    """A leader epoch, which no checksum covers, is another."""

    def change(batches: list[bytes]) -> object:
        number = draw.randrange(len(batches))
        batch = bytearray(batches[number])
        struct.pack_into(">i", batch, 12, draw.randint(-2, 9))
        batches[number] = bytes(batch)
        return batch

    return _with_batches(draw, files, change, "another leader epoch in")


def bad_index(draw: random.Random, files: Files) -> str | None:
    """An index was written half, or its bytes are others, or it ends in room that was never used."""
    names = [name for name in sorted(files) if name.endswith("index") and files[name].content]
    if not names:
        return None
    name = draw.choice(names)
    content = bytearray(files[name].content)
    how = draw.randrange(3)
    if how == 0:
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    elif how == 1:
        del content[draw.randrange(len(content)) :]
    else:
        content += bytes(draw.choice([8, 12, 24, 34]))
    _change(files, name, bytes(content))
    return f"{name} {('flipped', 'cut', 'with zeros')[how]}"


def bad_epochs(draw: random.Random, files: Files) -> str | None:
    """The leader epochs say something else than the batches, though they can be read."""
    name = "leader-epoch-checkpoint"
    if name not in files:
        return None
    entries = sorted({(draw.randint(0, 5), draw.randint(0, 200)) for _ in range(draw.randint(0, 3))})
    rising = [entry for number, entry in enumerate(entries) if all(entry > each for each in entries[:number])]
    lines = [f"{epoch} {offset}" for epoch, offset in rising]
    _change(files, name, "\n".join(["0", str(len(lines)), *lines, ""]).encode())
    return f"leader epochs {', '.join(lines)}"


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
    *(bad_snapshot, without_epochs, without_a_segment, garbage, batch_twice, batch_lost, batch_of_another_epoch),
    *(bad_index, bad_epochs),
)
LEFT_UNDER_A_CLEAN_MARK: tuple[Injury, ...] = (
    *(without_indexes, without_an_index, without_snapshots, without_a_snapshot, bad_snapshot, without_a_segment),
    *(bad_index, bad_epochs, garbage, zeros, cut),
)


def _with_batches(draw: random.Random, files: Files, change: Callable[[list[bytes]], object], words: str) -> str | None:
    name = _one_log(draw, files)
    if name is None:
        return None
    found = batches(files[name].content)
    change(found)
    _change(files, name, b"".join(found))
    return f"{words} {name}"


def batches(content: Buffer) -> list[bytes]:
    """Whole batches of a log. The bytes after the last whole one count as one too."""
    content = bytes(content)
    found = []
    while content:
        size = struct.unpack_from(">i", content, 8)[0] + 12 if len(content) >= 12 else len(content)
        size = size if 12 < size <= len(content) else len(content)
        found.append(content[:size])
        content = content[size:]
    return found


def _one_log(draw: random.Random, files: Files) -> str | None:
    names = [name for name in sorted(files) if name.endswith(".log") and files[name].content]
    return draw.choice(names) if names else None


def _without(files: Files, names: list[str], words: str) -> str | None:
    for name in names:
        del files[name]
    return (words or f"without {', '.join(names)}") if names else None


def _change(files: Files, name: str, content: bytes) -> None:
    files[name] = PartitionFile(name, content, files[name].modified_ms)
