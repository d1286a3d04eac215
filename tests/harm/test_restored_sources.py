"""Damage of a source ends when the source is whole again: one run brings the lake to what it is without the harm.

The oracle is a lake that never saw the harm: rows, ledger, open findings and exit code. A file comes back with its old
time, as `cp -p` and rsync bring it, or with a new one. What was is history: findings of severity `info` may stay.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pipelines.run.run_request import RunRequest
from tests import handmade, sampling
from tests.broker_directory import LogDirectory
from tests.harm.small_lake import SmallLake
from tests.harm.test_copied_lakes import VARIANTS
from tests.remote_storage import tiered

PLACES = ("local", "files", "chunks")
MODES = ("copy", "reference")


def flipped(data: bytes, chance: random.Random, _: Sequence[bytes]) -> bytes:
    """Not in a leader epoch: no checksum covers it, so the batch is archived, with a warning that stays."""
    epochs, at = set(), 0
    while at < len(data):
        epochs |= set(range(at + 12, at + 16))
        at += handmade.size_of(data, at)
    at = chance.choice([each for each in range(len(data)) if each not in epochs])
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def of_another_segment(data: bytes, chance: random.Random, others: Sequence[bytes]) -> bytes:
    """Of equal size: where no other segment has it, it is cut or filled with zeros."""
    other = chance.choice([other for other in others if other != data])
    return (other + bytes(len(data)))[: len(data)]


def cut(data: bytes, chance: random.Random, _: Sequence[bytes]) -> bytes:
    return data[: chance.randrange(1, len(data))]


def cut_between_batches(data: bytes, *_: object) -> bytes:
    return data[: handmade.size_of(data, 0)]


def noise(data: bytes, chance: random.Random, _: Sequence[bytes]) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + chance.randbytes(len(data) - at)


HARMS: dict[str, Callable[..., bytes | None]] = {
    "a flipped bit": flipped,
    "bytes of another segment": of_another_segment,
    "cut": cut,
    "cut between batches": cut_between_batches,
    "zeros": lambda data, *_: bytes(len(data)),
    "empty": lambda *_: b"",
    "gone": lambda *_: None,
    "noise": noise,
}


@dataclass(frozen=True)
class Case:
    """A harm, where it happens, and how it ends."""

    place: str
    mode: str
    harm: str
    at: int
    """Number of the segment."""
    keeps_time: bool
    seed: int = 0


def made(folder: Path, place: str, mode: str) -> tuple[SmallLake, list[Path]]:
    """A lake that was not run yet, and the closed segments of its source, in the broker's directory or remote."""
    source, remote = LogDirectory(folder / "source"), []
    if place == "local":
        orders = source.partition("orders-0")
        for number in range(5):
            if number:
                orders.roll()
            orders.append(10)
        source.high_watermarks(orders_0=50)
        files = orders.segments()
    else:
        storage = tiered(source, folder / "remote", layout=place)
        files, remote = storage.logs(), [str(storage.path)]
    return SmallLake(folder / "lake", RunRequest((str(source.path),), mode=mode, remote=tuple(remote))), files


def facts(lake: SmallLake) -> dict[str, Any]:
    """Those of the lake, with neighbours of the ledger joined, and without what is only information."""
    found = lake.facts()
    joined: list[list[Any]] = []
    for topic, partition, start, end, state, records, gaps, published in sorted(found["ledger"]):
        last = joined[-1] if joined else None
        if last is not None and last[:2] + last[3:5] + last[7:] == [topic, partition, start, state, published]:
            last[3], last[5], last[6] = end, last[5] + records, last[6] + gaps
        else:
            joined.append([topic, partition, start, end, state, records, gaps, published])
    return found | {"ledger": joined, "findings": [each for each in found["findings"] if each[2] != "info"]}


@cache
def oracle(folder: Path, place: str, mode: str) -> tuple[int, dict[str, Any]]:
    """What a lake is that never saw harm."""
    lake, _ = made(folder / f"{place}-{mode}", place, mode)
    return lake.run().code, facts(lake)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the lakes without harm."""
    with pytest.MonkeyPatch.context() as patched:
        folder = tmp_path_factory.mktemp("clean")
        patched.setenv("LOGLAKE_HOME", str(folder / "home"))
        yield folder


def check(case: Case, folder: Path, clean: Path) -> None:
    """Harm, run, restore, run: as without the harm."""
    code, expected = oracle(clean, case.place, case.mode)
    lake, files = made(folder, case.place, case.mode)
    file, good, times = files[case.at], files[case.at].read_bytes(), files[case.at].stat()
    harmed = HARMS[case.harm](good, random.Random(case.seed), [each.read_bytes() for each in files])
    file.unlink()
    if harmed is not None:
        file.write_bytes(harmed)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    lake.run()
    file.write_bytes(good)
    later = 0 if case.keeps_time else 5_000_000_000
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns + later))
    done = lake.run()
    assert facts(lake) == expected, (case, done.said)
    assert done.code == code, (case, done.said)


@pytest.mark.parametrize(
    "case",
    [
        Case("local", "copy", "bytes of another segment", 1, keeps_time=True),
        Case("local", "copy", "zeros", 1, keeps_time=True),
        Case("local", "reference", "bytes of another segment", 1, keeps_time=True),
        Case("local", "copy", "cut", 4, keeps_time=False),
        Case("local", "reference", "noise", 4, keeps_time=True, seed=697044622),
        Case("files", "copy", "bytes of another segment", 1, keeps_time=True),
        Case("files", "copy", "bytes of another segment", 1, keeps_time=False),
        Case("chunks", "copy", "a flipped bit", 2, keeps_time=True),
        Case("chunks", "copy", "bytes of another segment", 1, keeps_time=True, seed=280140951),
        Case("files", "reference", "bytes of another segment", 1, keeps_time=True),
        Case("files", "reference", "bytes of another segment", 1, keeps_time=False),
        Case("files", "reference", "a flipped bit", 1, keeps_time=False),
        Case("chunks", "reference", "a flipped bit", 1, keeps_time=False),
    ],
    ids=str,
)
def test_damage_ends_when_the_source_is_whole_again(case: Case, clean: Path, tmp_path: Path) -> None:
    check(case, tmp_path, clean)


def generated(seed: int) -> Case:
    """A case of the matrix."""
    chance = random.Random(f"{sampling.SEED} restored {seed}")
    place, mode = chance.choice(PLACES), chance.choice(MODES)
    at = chance.randrange(5 if place == "local" else 3)
    return Case(place, mode, chance.choice(sorted(HARMS)), at, chance.random() < 0.5, chance.randrange(1 << 30))


@pytest.mark.long
def test_any_harm_of_a_source_ends_with_its_cause(clean: Path, tmp_path: Path) -> None:
    for seed in range(VARIANTS):
        check(generated(seed), tmp_path / f"case-{seed}", clean)
        shutil.rmtree(tmp_path / f"case-{seed}")
