"""A source and a lake in the middle of their lives, and what one undisturbed round of jobs makes of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory, Partition
from tests.crash.forks import JOBS, Ended, Forks, Turn
from tests.crash.side_effects import plain

TRANSACTIONAL = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0}


def begin(source: LogDirectory) -> tuple[Partition, Partition]:
    """Two logs: one with a decided and an open transaction, one with a damaged batch in a closed segment."""
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    orders.append(20)
    orders.append(5, **TRANSACTIONAL, base_sequence=0)
    orders.marker(7, handmade.COMMIT)
    orders.roll()
    orders.append(10)
    orders.append(5, **TRANSACTIONAL, base_sequence=5)
    payments.append(15)
    first = payments.segments()[0]
    first.write_bytes(handmade.flip(first.read_bytes(), handmade.size_of(first.read_bytes()) + 80))
    payments.roll()
    payments.append(5)
    source.high_watermarks(orders_0=41, payments_0=20)
    return orders, payments


def grow(source: LogDirectory, orders: Partition, payments: Partition) -> None:
    """The open transaction is decided, another is aborted, both logs go on."""
    orders.marker(7, handmade.COMMIT)
    orders.append(5, **TRANSACTIONAL, base_sequence=10)
    orders.marker(7, handmade.ABORT)
    orders.roll()
    orders.append(7)
    payments.append(5)
    source.high_watermarks(orders_0=55, payments_0=25)


@dataclass(frozen=True)
class Scene:
    """A source, a lake as it was before a round of jobs, and what the round makes of it."""

    name: str
    forks: Sequence[Forks]
    directory: LogDirectory
    before: dict[str, Path]
    """By job: the lake as that job finds it."""
    effects: dict[str, list[str]]
    """By job: names of its side effects, in order."""
    journals: dict[str, list[tuple[str, str, str]]]
    """By job: kind, path and, of a rename, the path before it of each effect, in order."""
    undisturbed: dict[str, list[str]]
    scratch: Path

    @property
    def source(self) -> str:
        """Where the source lies."""
        return str(self.directory.path)

    def lake(self, job: str, name: str) -> Path:
        """A lake of one's own, as `job` finds it."""
        lake = self.scratch / name
        if self.before[job].is_dir():
            shutil.copytree(self.before[job], lake)
        return lake

    def each(self, work: Callable[[Forks, int], str | None], count: int) -> list[str]:
        """`work` for 0 … count - 1, on every server at once; what was said of those that went wrong."""

        def some(first: int) -> list[str | None]:
            return [work(self.forks[first], number) for number in range(first, count, len(self.forks))]

        with ThreadPoolExecutor(len(self.forks)) as pool:
            return [said for group in pool.map(some, range(len(self.forks))) for said in group if said]

    def difference(self, ended: Ended) -> str | None:
        """What is not as it is undisturbed."""
        if ended.code != 0:
            return f"ended with {ended.code}: {ended.said[-1500:]}"
        for name, rows in self.undisturbed.items():
            if ended.tables[name] != rows:
                more, less = set(ended.tables[name]) - set(rows), set(rows) - set(ended.tables[name])
                return (
                    f"{name}: {len(ended.tables[name])} rows for {len(rows)}; only here {sorted(more)[:2]}, "
                    f"only there {sorted(less)[:2]}"
                )
        return None


def change_its_mind(source: LogDirectory, orders: Partition, payments: Partition) -> None:
    """A new leader took the undecided end of one log back and wrote on; the damage of the other was repaired."""
    orders.truncate(36)
    orders.append(8, tag=b"of the next leader", leader_epoch=1)
    orders.epochs([(0, 0), (1, 36)])
    first = payments.segments()[0]
    first.write_bytes(handmade.flip(first.read_bytes(), handmade.size_of(first.read_bytes()) + 80))
    source.high_watermarks(orders_0=44, payments_0=20)


Change = Callable[[LogDirectory, Partition, Partition], None]


def make_scene(name: str, forks: list[Forks], scratch: Path, change: Change | None) -> Scene:
    source = LogDirectory(scratch / "source")
    logs = begin(source)
    lake, before, effects, journals = scratch / "lake", {}, {}, {}
    if change is not None:
        assert forks[0].run(Turn(str(lake), str(source.path))).code == 0
        change(source, *logs)
    undisturbed: dict[str, list[str]] = {}
    for job in JOBS:
        before[job] = scratch / f"before-{job}"
        if lake.is_dir():
            shutil.copytree(lake, before[job])
        journal = scratch / f"journal-{job}"
        ended = forks[0].run(Turn(str(lake), str(source.path), (job,), journal=str(journal)))
        assert ended.code == 0, ended.said
        lines = [line.partition("\t") for line in journal.read_text().splitlines()]
        effects[job] = [plain(name) for name, _, _ in lines]
        journals[job] = [(*name.split(" ", 1), was) for name, _, was in lines]  # type: ignore[misc]
        undisturbed = ended.tables
    return Scene(name, forks, source, before, effects, journals, undisturbed, scratch)


def lost_without_power(journal: Sequence[tuple[str, str, str]]) -> list[str]:
    """What commits name that is not on disk yet, by a model of a disk that keeps only what was synced: a file's bytes,
    and a folder's entries.
    """
    unsafe: set[tuple[str, str]] = set()
    lost: list[str] = []
    for kind, path, was in journal:
        if kind in ("open", "begin", "fill", "close", "truncate"):
            unsafe |= {("bytes", path), ("entry", path)} if kind in ("open", "begin") else {("bytes", path)}
        elif kind == "mkdir":
            unsafe.add(("entry", path))
        elif kind == "fsync":
            unsafe.discard(("bytes", path))
            folder = "" if path == "." else path
            unsafe -= {("entry", each) for _, each in unsafe if os.path.dirname(each) == folder}
        elif kind in ("rename", "link"):
            if ("bytes", was) in unsafe:
                unsafe.add(("bytes", path))
            unsafe.add(("entry", path))
        if kind in ("rename", "unlink"):
            gone = was if kind == "rename" else path
            unsafe -= {("bytes", gone), ("entry", gone)}
        if kind == "commit":
            folder = "archive" if path == "tables/segments" else path
            left = sorted(each for each in unsafe if each[1].startswith(folder))
            lost += [f"not on disk when {path} is committed: {each}" for each in left]
    return lost
