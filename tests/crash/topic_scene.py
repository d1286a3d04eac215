"""A lake before a run of a job that keeps tables of a topic, what an undisturbed run makes of it, and runs that die."""

from __future__ import annotations

import shutil
import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests import handmade, sampling
from tests.broker_directory import LogDirectory
from tests.crash.forks import Ended, Forks, Turn
from tests.crash.sampling import DOUBLE_CRASHES, kills
from tests.crash.scene import Scene
from tests.crash.side_effects import Happening, plain
from tests.long_runs import Kind, record

FIRST, GROWN, REPLACED = "first", "grown", "replaced"
"""The first run of the job, one over new rows in two logs, and one that makes all rows again under another policy."""
Row = tuple[bytes | None, bytes | None]


@dataclass(frozen=True)
class TopicScene:
    """A lake before a run of a job, and after an undisturbed one."""

    job: str
    tables: tuple[str, ...]
    forks: list[Forks]
    scratch: Path
    options: dict[str, Any]
    constants: Mapping[str, Any]
    effects: list[str] = field(default_factory=list)
    journal: list[tuple[str, str, str]] = field(default_factory=list)
    undisturbed: dict[str, list[str]] = field(default_factory=dict)

    @property
    def before(self) -> Path:
        """The lake before the run."""
        return self.scratch / "before"

    def turn(self, lake: Path, **more: Any) -> Turn:
        """A run of the job."""
        return Turn(
            str(lake), "", (self.job,), options={self.job: self.options}, constants=dict(self.constants), **more
        )

    def lake(self, name: str) -> Path:
        """A lake of one's own, as the job finds it."""
        return Path(shutil.copytree(self.before, self.scratch / name))

    def difference(self, ended: Ended) -> str | None:
        """What is not as it is undisturbed."""
        if ended.code != 0:
            return f"ended with {ended.code}: {ended.said[-1500:]}"
        for name in self.tables:
            here, there = Counter(ended.tables[name]), Counter(self.undisturbed[name])
            if here != there:
                return f"{name}: only here {list(here - there)[:2]}, only there {list(there - here)[:2]}"
        return None

    def check_killed_once(self) -> None:
        """Kill the job before each of many side effects; the next run must make the tables of an undisturbed one."""
        places = kills(self.effects, f"{self.job} {self.scratch.name}")

        def killed(forks: Forks, turn: int) -> str | None:
            number = places[turn]
            lake = self.lake(f"killed-{number}")
            where = f"killed before effect {number + 1} of {self.job}, {self.effects[number]}:"
            died = forks.run(self.turn(lake, happening=Happening("kill", at=number + 1)))
            if died.code != -signal.SIGKILL:
                return f"{where} it did not die but ended with {died.code}: {died.said}"
            said = self.difference(forks.run(self.turn(lake, look_first=True)))
            shutil.rmtree(lake, ignore_errors=True)
            return said and f"{where} {said}"

        wrong = Scene.each(self, killed, len(places))  # type: ignore[arg-type]
        print(f"{self.job} was killed before {len(places)} of {len(self.effects)} side effects, seed {sampling.SEED}")
        assert not wrong, "\n".join(wrong)

    def check_killed_twice(self) -> None:
        """Kill the job twice at random; the third run must make the tables of an undisturbed one."""
        chance = sampling.chance(f"{self.job} twice {self.scratch.name}")
        total = len(self.effects)
        places = [(chance.randint(1, total), chance.randint(1, total)) for _ in range(DOUBLE_CRASHES)]

        def killed_twice(forks: Forks, number: int) -> str | None:
            lake = self.lake(f"twice-{number}")
            for at in places[number]:  # the second run may have less to do and live
                forks.run(self.turn(lake, happening=Happening("kill", at=at)))
            said = self.difference(forks.run(self.turn(lake, look_first=True)))
            shutil.rmtree(lake, ignore_errors=True)
            return said and f"seed {sampling.SEED}, killed at {places[number]}: {said}"

        wrong = Scene.each(self, killed_twice, len(places))  # type: ignore[arg-type]
        assert not wrong, "\n".join(wrong)
        record(Kind.DOUBLE_CRASHES, self.job, len(places), sampling.SEED)


def make_topic_scene(
    job: str,
    tables: tuple[str, ...],
    kind: str,
    forks: list[Forks],
    scratch: Path,
    *,
    policies: tuple[str, str],
    rows: Callable[[int], Sequence[Row]],
    constants: Mapping[str, Any],
) -> TopicScene:
    """Make the topic `orders` of two logs, and run the job once undisturbed.

    Args:
        tables: those that the job makes.
        kind: one of those above.
        policies: before, and for a replacement.
        rows: of each log in a turn, 0 or 1.
        constants: of modules, by ``module.NAME``.
    """
    source = LogDirectory(scratch / "source")
    logs = [source.partition("orders-0"), source.partition("orders-1")]
    lake, stated, journal = scratch / "lake", scratch / "policies.yaml", scratch / "journal"
    stated.write_text(policies[0])
    options: dict[str, Any] = {"policies": str(stated)}
    scene = TopicScene(job, tables, forks, scratch, options, constants)
    for turn in range(1 if kind == FIRST else 2):
        for log in logs:
            if not log.segments():
                log.roll()
            log.write(handmade.simple_batch(log.next_offset, list(rows(turn)), leader_epoch=0))
            log.next_offset += len(rows(turn))
        source.high_watermarks(orders_0=logs[0].next_offset, orders_1=logs[1].next_offset)
        ended = forks[0].run(Turn(str(lake), str(source.path)))
        assert ended.code == 0, ended.said
        if kind != FIRST and turn == 0:
            ended = forks[0].run(scene.turn(lake))
            assert ended.code == 0, ended.said
    if kind == REPLACED:
        stated.write_text(policies[1])
        options["replace"] = ["orders"]
    return undisturbed(scene, forks[0], lake, journal)


def undisturbed(scene: TopicScene, fork: Forks, lake: Path, journal: Path) -> TopicScene:
    """Run the job once, and return the scene with the side effects and the tables of that run."""
    shutil.copytree(lake, scene.before)
    ended = fork.run(scene.turn(lake, journal=str(journal)))
    assert ended.code == 0, ended.said
    lines = [line.partition("\t") for line in journal.read_text().splitlines()]
    return replace(
        scene,
        effects=[plain(name) for name, _, _ in lines],
        journal=[(*name.split(" ", 1), was) for name, _, was in lines],  # type: ignore[misc]
        undisturbed=ended.tables,
    )
