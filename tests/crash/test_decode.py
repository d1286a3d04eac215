"""Killed before any side effect of decode and run again: the tables of an undisturbed run, each row once."""

from __future__ import annotations

import shutil
import signal
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests import handmade, sampling
from tests.broker_directory import LogDirectory, Partition
from tests.crash import visible
from tests.crash.forks import Ended, Forks, Turn
from tests.crash.sampling import DOUBLE_CRASHES, kills
from tests.crash.scene import Scene, lost_without_power
from tests.crash.side_effects import Happening, plain
from tests.long_runs import Kind, record

pytestmark = pytest.mark.crash

TABLES = ("decoded/orders", "undecoded/orders")
TEXT = "topics: {orders: {decode.key: string, decode.value: string}}"
SHORT = "topics: {orders: {decode.value: short}}"
SMALL = {"spark_jobs.decode.plan.TASK_BYTES": 1, "spark_jobs.decode.plan.IN_PROCESS_BYTES": 0}
"""A task for each file of `records`."""


@dataclass(frozen=True)
class Decoding:
    """A lake before a run of decode, and after an undisturbed one."""

    forks: list[Forks]
    before: Path
    effects: list[str]
    journal: list[tuple[str, str, str]]
    undisturbed: dict[str, list[str]]
    options: dict[str, Any]
    scratch: Path

    def turn(self, lake: Path, **more: Any) -> Turn:
        return Turn(str(lake), "", ("decode",), options={"decode": self.options}, constants=SMALL, **more)

    def lake(self, name: str) -> Path:
        return Path(shutil.copytree(self.before, self.scratch / name))

    def difference(self, ended: Ended) -> str | None:
        """What is not as it is undisturbed."""
        if ended.code != 0:
            return f"ended with {ended.code}: {ended.said[-1500:]}"
        for name in TABLES:
            here, there = Counter(ended.tables[name]), Counter(self.undisturbed[name])
            if here != there:
                return f"{name}: only here {list(here - there)[:2]}, only there {list(there - here)[:2]}"
        return None


def write(partition: Partition, *rows: tuple[bytes | None, bytes | None]) -> None:
    if not partition.segments():
        partition.roll()
    partition.write(handmade.simple_batch(partition.next_offset, list(rows), leader_epoch=0))
    partition.next_offset += len(rows)


@pytest.fixture(scope="module", params=["first", "grown", "replaced"])
def decoding(request: pytest.FixtureRequest, forks: list[Forks], tmp_path_factory: pytest.TempPathFactory) -> Decoding:
    """The first run of decode, one over new rows in two logs, and one that replaces all rows under another policy."""
    scratch = tmp_path_factory.mktemp(f"decode-{request.param}")
    source = LogDirectory(scratch / "source")
    logs = [source.partition("orders-0"), source.partition("orders-1")]
    lake, policies = scratch / "lake", scratch / "policies.yaml"
    policies.write_text(TEXT)
    options: dict[str, Any] = {"policies": str(policies)}
    for turn in range(1 if request.param == "first" else 2):
        for log in logs:
            write(
                log,
                (b"a", b"\x00\x01"),
                (b"b", b"\xff%d" % turn),
                (b"c", None),
                (b"\xfe", b"\x00\x02"),
                (b"d", b"text"),
            )
        source.high_watermarks(orders_0=logs[0].next_offset, orders_1=logs[1].next_offset)
        ended = forks[0].run(Turn(str(lake), str(source.path)))
        assert ended.code == 0, ended.said
        if request.param != "first" and turn == 0:
            ended = forks[0].run(Turn(str(lake), "", ("decode",), options={"decode": options}, constants=SMALL))
            assert ended.code == 0, ended.said
    if request.param == "replaced":
        policies.write_text(SHORT)
        options["replace"] = ["orders"]
    before, journal = scratch / "before", scratch / "journal"
    shutil.copytree(lake, before)
    made = Decoding(forks, before, [], [], {}, options, scratch)
    ended = forks[0].run(made.turn(lake, journal=str(journal)))
    assert ended.code == 0, ended.said
    lines = [line.partition("\t") for line in journal.read_text().splitlines()]
    return replace(
        made,
        effects=[plain(name) for name, _, _ in lines],
        journal=[(*name.split(" ", 1), was) for name, _, was in lines],  # type: ignore[misc]
        undisturbed=ended.tables,
    )


def test_the_undisturbed_run_commits_both_tables_and_each_row_is_in_one_of_them(decoding: Decoding) -> None:
    first, second = "commit tables/undecoded/orders", "commit tables/decoded/orders"
    assert decoding.effects.index(first) < decoding.effects.index(second)
    lost = lost_without_power(decoding.journal)
    assert not lost, "\n".join(lost)
    places = Counter(
        (row["partition"], row["offset"]) for name in TABLES for row in visible.rows(decoding.scratch / "lake", name)
    )
    published = visible.rows(decoding.before, "records")
    assert places == Counter((row["partition"], row["offset"]) for row in published)
    assert all(decoding.undisturbed[name] for name in TABLES)
    print(f"{len(decoding.effects)} side effects")


def test_killed_before_any_side_effect_the_next_run_has_each_row_once(decoding: Decoding) -> None:
    places = kills(decoding.effects, f"decode {decoding.scratch.name}")

    def killed(forks: Forks, turn: int) -> str | None:
        number = places[turn]
        lake = decoding.lake(f"killed-{number}")
        where = f"killed before effect {number + 1} of decode, {decoding.effects[number]}:"
        died = forks.run(decoding.turn(lake, happening=Happening("kill", at=number + 1)))
        if died.code != -signal.SIGKILL:
            return f"{where} it did not die but ended with {died.code}: {died.said}"
        said = decoding.difference(forks.run(decoding.turn(lake, look_first=True)))
        shutil.rmtree(lake, ignore_errors=True)
        return said and f"{where} {said}"

    wrong = Scene.each(decoding, killed, len(places))  # type: ignore[arg-type]
    print(f"decode was killed before {len(places)} of {len(decoding.effects)} side effects, seed {sampling.SEED}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("decoding", ["replaced"], indirect=True)
def test_between_the_two_commits_of_a_replacement_the_topic_waits_with_whole_tables(decoding: Decoding) -> None:
    assert "replace" in decoding.options
    lake = decoding.lake("between")
    number = decoding.effects.index("commit tables/decoded/orders") + 1
    decoding.forks[0].run(decoding.turn(lake, happening=Happening("kill", at=number)))
    old = visible.tables(decoding.before)
    without = replace(decoding, options={"policies": decoding.options["policies"]})
    ended = decoding.forks[0].run(without.turn(lake))
    assert ended.code == 0
    assert ended.tables["decoded/orders"] == old["decoded/orders"]
    assert ended.tables["undecoded/orders"] == decoding.undisturbed["undecoded/orders"]


def test_killed_twice_at_random_the_third_run_has_each_row_once(decoding: Decoding) -> None:
    chance = sampling.chance(f"decode twice {decoding.scratch.name}")
    total = len(decoding.effects)
    places = [(chance.randint(1, total), chance.randint(1, total)) for _ in range(DOUBLE_CRASHES)]

    def killed_twice(forks: Forks, number: int) -> str | None:
        lake = decoding.lake(f"twice-{number}")
        for at in places[number]:  # the second run may have less to do and live
            forks.run(decoding.turn(lake, happening=Happening("kill", at=at)))
        said = decoding.difference(forks.run(decoding.turn(lake, look_first=True)))
        shutil.rmtree(lake, ignore_errors=True)
        return said and f"seed {sampling.SEED}, killed at {places[number]}: {said}"

    wrong = Scene.each(decoding, killed_twice, len(places))  # type: ignore[arg-type]
    assert not wrong, "\n".join(wrong)
    record(Kind.DOUBLE_CRASHES, "decode", len(places), sampling.SEED)
