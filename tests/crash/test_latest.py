"""Killed before any side effect of `latest` and run again: the table of an undisturbed run, each key once."""

from __future__ import annotations

import shutil
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests import handmade, sampling
from tests.broker_directory import LogDirectory
from tests.crash.forks import Ended, Forks, Turn
from tests.crash.sampling import DOUBLE_CRASHES, kills
from tests.crash.scene import Scene, lost_without_power
from tests.crash.side_effects import Happening, plain
from tests.long_runs import Kind, record

pytestmark = pytest.mark.crash

TABLE = "latest/orders"


@dataclass(frozen=True)
class Keeping:
    """A lake before a run of `latest`, and after an undisturbed one."""

    forks: list[Forks]
    before: Path
    effects: list[str]
    journal: list[tuple[str, str, str]]
    undisturbed: list[str]
    options: dict[str, Any]
    scratch: Path

    def turn(self, lake: Path, **more: Any) -> Turn:
        return Turn(str(lake), "", ("latest",), options={"latest": self.options}, **more)

    def lake(self, name: str) -> Path:
        return Path(shutil.copytree(self.before, self.scratch / name))

    def difference(self, ended: Ended) -> str | None:
        """What is not as it is undisturbed."""
        if ended.code != 0:
            return f"ended with {ended.code}: {ended.said[-1500:]}"
        here, there = sorted(ended.tables[TABLE]), sorted(self.undisturbed)
        return None if here == there else f"{len(here)} rows are not the {len(there)} of an undisturbed run"


@pytest.fixture(scope="module", params=["first", "grown", "replaced"])
def keeping(request: pytest.FixtureRequest, forks: list[Forks], tmp_path_factory: pytest.TempPathFactory) -> Keeping:
    """The first run, one over new rows in two logs, and one that computes all rows under another policy."""
    scratch = tmp_path_factory.mktemp(f"latest-{request.param}")
    source = LogDirectory(scratch / "source")
    logs = [source.partition("orders-0"), source.partition("orders-1")]
    lake, policies = scratch / "lake", scratch / "policies.yaml"
    policies.write_text("topics: {orders: {latest: delete}}")
    options: dict[str, Any] = {"policies": str(policies)}
    for turn in range(1 if request.param == "first" else 2):
        rows = [
            (b"a", b"%d" % turn),
            (b"b", None if turn else b"1"),
            (b"c-%d" % turn, b"x"),
            (None, b"y"),
            (b"d", None),
        ]
        for log in logs:
            if not log.segments():
                log.roll()
            log.write(handmade.simple_batch(log.next_offset, rows, leader_epoch=0))
            log.next_offset += len(rows)
        source.high_watermarks(orders_0=logs[0].next_offset, orders_1=logs[1].next_offset)
        ended = forks[0].run(Turn(str(lake), str(source.path)))
        assert ended.code == 0, ended.said
        if request.param != "first" and turn == 0:
            ended = forks[0].run(Turn(str(lake), "", ("latest",), options={"latest": options}))
            assert ended.code == 0, ended.said
    if request.param == "replaced":
        policies.write_text("topics: {orders: {latest: soft-delete}}")
        options["replace"] = ["orders"]
    before, journal = scratch / "before", scratch / "journal"
    shutil.copytree(lake, before)
    made = Keeping(forks, before, [], [], [], options, scratch)
    ended = forks[0].run(made.turn(lake, journal=str(journal)))
    assert ended.code == 0, ended.said
    lines = [line.partition("\t") for line in journal.read_text().splitlines()]
    return replace(
        made,
        effects=[plain(name) for name, _, _ in lines],
        journal=[(*name.split(" ", 1), was) for name, _, was in lines],  # type: ignore[misc]
        undisturbed=ended.tables[TABLE],
    )


def test_the_undisturbed_run_commits_once_and_loses_nothing_without_power(keeping: Keeping) -> None:
    assert "commit tables/latest/orders" in keeping.effects
    lost = lost_without_power(keeping.journal)
    assert not lost, "\n".join(lost)
    # a, b, c-0 of two logs; then a, c-0, c-1; with b and d as deleted rows
    assert len(keeping.undisturbed) == (10 if "replace" in keeping.options else 6)


def test_killed_before_any_side_effect_the_next_run_has_each_key_once(keeping: Keeping) -> None:
    places = kills(keeping.effects, f"latest {keeping.scratch.name}")

    def killed(forks: Forks, turn: int) -> str | None:
        number = places[turn]
        lake = keeping.lake(f"killed-{number}")
        where = f"killed before effect {number + 1} of latest, {keeping.effects[number]}:"
        died = forks.run(keeping.turn(lake, happening=Happening("kill", at=number + 1)))
        if died.code != -signal.SIGKILL:
            return f"{where} it did not die but ended with {died.code}: {died.said}"
        said = keeping.difference(forks.run(keeping.turn(lake, look_first=True)))
        shutil.rmtree(lake, ignore_errors=True)
        return said and f"{where} {said}"

    wrong = Scene.each(keeping, killed, len(places))  # type: ignore[arg-type]
    print(f"latest was killed before {len(places)} of {len(keeping.effects)} side effects, seed {sampling.SEED}")
    assert not wrong, "\n".join(wrong)


def test_killed_twice_at_random_the_third_run_has_each_key_once(keeping: Keeping) -> None:
    chance = sampling.chance(f"latest twice {keeping.scratch.name}")
    total = len(keeping.effects)
    places = [(chance.randint(1, total), chance.randint(1, total)) for _ in range(DOUBLE_CRASHES)]

    def killed_twice(forks: Forks, number: int) -> str | None:
        lake = keeping.lake(f"twice-{number}")
        for at in places[number]:  # the second run may have less to do and live
            forks.run(keeping.turn(lake, happening=Happening("kill", at=at)))
        said = keeping.difference(forks.run(keeping.turn(lake, look_first=True)))
        shutil.rmtree(lake, ignore_errors=True)
        return said and f"seed {sampling.SEED}, killed at {places[number]}: {said}"

    wrong = Scene.each(keeping, killed_twice, len(places))  # type: ignore[arg-type]
    assert not wrong, "\n".join(wrong)
    record(Kind.DOUBLE_CRASHES, "latest", len(places), sampling.SEED)
