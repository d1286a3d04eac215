"""Killed before any side effect of retention and of maintain, and run again: tables and files of an undisturbed run.

The lake has a segment that retention removes, one that it removed before, slices that fit together and a file that no
row names.
"""

from __future__ import annotations

import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import sampling
from tests.broker_directory import LogDirectory
from tests.crash.forks import AS_OF_MS, Ended, Forks, Turn
from tests.crash.sampling import DOUBLE_CRASHES, EVERY_KILL, kills
from tests.crash.scene import Scene
from tests.crash.side_effects import Happening, plain
from tests.long_runs import Kind, record

pytestmark = pytest.mark.crash

POLICY = "topics: {'*': {cleanup.policy: delete, retention.bytes: %d, file.delete.delay.ms: 0}}"
JOBS = ("retention", "tidy_archive")


@dataclass(frozen=True)
class Upkeep:
    """A lake before its maintenance, and after an undisturbed one."""

    forks: list[Forks]
    source: str
    before: dict[str, Path]
    effects: dict[str, list[str]]
    undisturbed: dict[str, list[str]]
    files: dict[str, bytes]
    scratch: Path
    options: dict[str, Any]

    def turn(self, lake: Path, jobs: tuple[str, ...] = JOBS, **more: Any) -> Turn:
        return Turn(str(lake), self.source, jobs, options=self.options, **more)

    def lake(self, job: str, name: str) -> Path:
        return Path(shutil.copytree(self.before[job], self.scratch / name))

    def difference(self, lake: Path, ended: Ended, *, but: str | None = None) -> str | None:
        """What is not as it is undisturbed; `but`: a table that may have more."""
        if ended.code != 0:
            return f"ended with {ended.code}: {ended.said[-1500:]}"
        for name, rows in self.undisturbed.items():
            if name == but:
                continue
            if ended.tables[name] != rows:
                more, less = set(ended.tables[name]) - set(rows), set(rows) - set(ended.tables[name])
                return f"{name}: only here {sorted(more)[:2]}, only there {sorted(less)[:2]}"
        there = archived(lake)
        if there != self.files:
            return (
                f"files: only here {sorted(there.keys() - self.files)}, only there {sorted(self.files.keys() - there)}"
            )
        return None


def archived(lake: Path) -> dict[str, bytes]:
    """Files and empty folders of the archive."""
    root = lake / "archive"
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else b"a folder"
        for path in root.rglob("*")
        if path.is_file() or not any(path.iterdir())
    }


@pytest.fixture(scope="module")
def upkeep(forks: list[Forks], tmp_path_factory: pytest.TempPathFactory) -> Upkeep:
    scratch = tmp_path_factory.mktemp("upkeep")
    source = LogDirectory(scratch / "source")
    orders = source.partition("orders-0")
    for _ in range(3):
        orders.append(20)
        orders.roll()
    size = orders.segments()[0].stat().st_size
    policies = scratch / "policies.yaml"
    policies.write_text(POLICY % (3 * size))
    lake = scratch / "lake"
    told = {
        "retention": {"policies": str(policies), "apply": True},
        "tidy_archive": {"policies": str(policies), "apply": True, "force": True, "orphan_after_ms": 0},
    }
    for _ in range(3):
        orders.append(7)
        source.high_watermarks(orders_0=orders.next_offset)
        assert forks[0].run(Turn(str(lake), str(source.path))).code == 0
    early = told | {"retention": told["retention"] | {"as_of_ms": AS_OF_MS - 5}}
    tail = orders.segments()[-1].stat().st_size
    policies.write_text(POLICY % (2 * size + tail))
    ended = forks[0].run(Turn(str(lake), str(source.path), ("retention",), options=early))
    assert ended.code == 0, ended.said
    policies.write_text(POLICY % (size + tail))
    nameless = lake / "archive" / "lost.0" / "0" / "0123" / "00000000000000000000.log"
    nameless.parent.mkdir(parents=True)
    nameless.write_bytes(b"nobody's")
    before, effects = {}, {}
    ended = None
    for job in JOBS:
        before[job] = scratch / f"before-{job}"
        shutil.copytree(lake, before[job])
        journal = scratch / f"journal-{job}"
        ended = forks[0].run(Turn(str(lake), str(source.path), (job,), options=told, journal=str(journal)))
        assert ended.code == 0, ended.said
        effects[job] = [plain(line.partition("\t")[0]) for line in journal.read_text().splitlines()]
    assert ended is not None
    return Upkeep(forks, str(source.path), before, effects, ended.tables, archived(lake), scratch, told)


def test_the_undisturbed_run_retires_deletes_merges_and_records_it(upkeep):
    told = "\n".join(upkeep.undisturbed["log_actions"])
    assert [told.count(f"'action', '{action}'") for action in ("retention", "delete", "merge", "delete-orphan")] == [
        2,
        1,
        3,
        1,
    ]
    names = [name for job in JOBS for name in upkeep.effects[job]]
    assert any(name.startswith("unlink archive/") for name in names)
    assert any(name.startswith("rmdir archive/") for name in names)
    for table in ("segments", "batches", "validations", "log_actions", "offset_ledger"):
        assert f"commit tables/{table}" in names
    print(f"{len(names)} side effects: " + ", ".join(f"{job} {len(upkeep.effects[job])}" for job in JOBS))


@pytest.mark.long
@pytest.mark.parametrize("job", JOBS)
def test_killed_before_any_side_effect_the_next_run_leaves_what_an_undisturbed_one_does(upkeep, job):
    known = upkeep.effects[job]
    places = kills(known, job)

    def killed(forks: Forks, turn: int) -> str | None:
        number = places[turn]
        lake = upkeep.lake(job, f"killed-{job}-{number}")
        where = f"killed before effect {number + 1} of {job}, {known[number]}:"
        died = forks.run(upkeep.turn(lake, (job,), happening=Happening("kill", at=number + 1)))
        if died.code != -signal.SIGKILL:
            return f"{where} it did not die but ended with {died.code}: {died.said}"
        said = upkeep.difference(lake, forks.run(upkeep.turn(lake, look_first=True)))
        shutil.rmtree(lake, ignore_errors=True)
        return said and f"{where} {said}"

    wrong = Scene.each(upkeep, killed, len(places))  # type: ignore[arg-type]
    print(f"{job} was killed before {len(places)} of {len(known)} side effects, seed {sampling.SEED}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
def test_killed_twice_at_random_the_third_run_leaves_what_an_undisturbed_one_does(upkeep):
    chance = sampling.chance("maintenance twice")
    total = sum(len(upkeep.effects[job]) for job in JOBS)
    places = [(chance.randint(1, total), chance.randint(1, total)) for _ in range(DOUBLE_CRASHES)]

    def killed_twice(forks: Forks, number: int) -> str | None:
        lake = upkeep.lake("retention", f"twice-{number}")
        for at in places[number]:  # the second run may have less to do and live
            forks.run(upkeep.turn(lake, look_first=True, happening=Happening("kill", at=at)))
        said = upkeep.difference(lake, forks.run(upkeep.turn(lake, look_first=True)))
        shutil.rmtree(lake, ignore_errors=True)
        return said and f"seed {sampling.SEED}, killed at {places[number]}: {said}"

    wrong = Scene.each(upkeep, killed_twice, len(places))  # type: ignore[arg-type]
    assert not wrong, "\n".join(wrong)
    record(Kind.DOUBLE_CRASHES, "maintenance", len(places), sampling.SEED)


@pytest.mark.long
@pytest.mark.parametrize("errno", [13, 28])
def test_a_disk_that_fails_at_any_side_effect_loses_nothing(upkeep, errno):
    known = upkeep.effects["tidy_archive"]
    chosen = sampling.drawn(range(len(known)), len(known) if EVERY_KILL else 10, f"maintain fails {errno}")

    def failing(forks: Forks, number: int) -> str | None:
        at = chosen[number]
        lake = upkeep.lake("tidy_archive", f"failing-{errno}-{at}")
        what = Happening("fail", at=at + 1, errno=errno)
        forks.run(upkeep.turn(lake, ("tidy_archive",), happening=what))
        # What could not be done was reported, and stays reported.
        said = upkeep.difference(lake, forks.run(upkeep.turn(lake, look_first=True)), but="findings")
        shutil.rmtree(lake, ignore_errors=True)
        return said and f"seed {sampling.SEED}, failing with {errno} at effect {at + 1}, {known[at]}: {said}"

    wrong = Scene.each(upkeep, failing, len(chosen))  # type: ignore[arg-type]
    assert not wrong, "\n".join(wrong)
