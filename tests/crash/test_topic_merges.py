"""Killed before any side effect of the merge of decoded tables and run again: the same rows, and one file for each log.
The same for the removal of files that no version needs: no live file goes, and the next run removes the rest.

Optimize merges the state tables of the lake before these tables. So a run that dies there is part of the claim.
"""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests import handmade
from tests.broker_directory import LogDirectory
from tests.crash import visible
from tests.crash.forks import Forks, Turn
from tests.crash.sampling import kills
from tests.crash.scene import Scene, lost_without_power
from tests.crash.side_effects import Happening
from tests.crash.topic_scene import TopicScene, undisturbed

pytestmark = pytest.mark.crash

TABLES = ("decoded/orders", "undecoded/orders")
NIGHTS = 3
LATER_MS = 4_000_000_000_000


@pytest.fixture(scope="module")
def merging(forks: list[Forks], tmp_path_factory: pytest.TempPathFactory) -> TopicScene:
    """A lake that was decoded in several nights, before the first run of optimize."""
    scratch = tmp_path_factory.mktemp("topic-merges")
    source = LogDirectory(scratch / "source")
    logs = [source.partition("orders-0"), source.partition("orders-1")]
    lake, stated, journal = scratch / "lake", scratch / "policies.yaml", scratch / "journal"
    stated.write_text("topics: {orders: {decode.key: string, decode.value: string}}")
    for night in range(NIGHTS):
        for log in logs:
            rows = [(b"a", b"%d" % night), (b"b", b"\xff%d" % night), (b"c", None)]
            if not log.segments():
                log.roll()
            log.write(handmade.simple_batch(log.next_offset, rows, leader_epoch=0))
            log.next_offset += len(rows)
        source.high_watermarks(orders_0=logs[0].next_offset, orders_1=logs[1].next_offset)
        for turn in (
            Turn(str(lake), str(source.path)),
            Turn(str(lake), "", ("decode",), options={"decode": {"policies": str(stated)}}),
        ):
            ended = forks[0].run(turn)
            assert ended.code == 0, ended.said
    options: dict[str, Any] = {"policies": str(stated), "apply": True, "vacuum": False}
    scene = TopicScene("optimize", (*TABLES, "records"), forks, scratch, options, {})
    return undisturbed(scene, forks[0], lake, journal)


def live(lake: Path, name: str) -> int:
    """Number of files of a table."""
    return len(DeltaTable(str(lake / "tables" / name)).file_uris())


def test_the_undisturbed_run_changes_no_row_and_loses_nothing_without_power(merging: TopicScene) -> None:
    before = visible.tables(merging.before)
    for name in TABLES:
        assert f"commit tables/{name}" in merging.effects
        assert merging.undisturbed[name] == before[name]
        assert (live(merging.before, name), live(merging.scratch / "lake", name)) == (2 * NIGHTS, 2)
    lost = lost_without_power(merging.journal)
    assert not lost, "\n".join(lost)


def test_killed_before_any_side_effect_the_next_run_leaves_the_same_rows(merging: TopicScene) -> None:
    merging.check_killed_once()


def test_killed_twice_at_random_the_third_run_leaves_the_same_rows(merging: TopicScene) -> None:
    merging.check_killed_twice()


@pytest.fixture(scope="module")
def removing(merging: TopicScene, tmp_path_factory: pytest.TempPathFactory) -> TopicScene:
    """The lake after the merge, before a run that removes all files which its latest versions do not name."""
    scratch = tmp_path_factory.mktemp("topic-removal")
    lake = Path(shutil.copytree(merging.scratch / "lake", scratch / "lake"))
    options = {**merging.options, "vacuum": True, "as_of_ms": LATER_MS, "force": True, "vacuum_after_ms": 0}
    scene = TopicScene("optimize", merging.tables, merging.forks, scratch, options, {})
    return undisturbed(scene, merging.forks[0], lake, scratch / "journal")


def needless(lake: Path) -> list[str]:
    """Data files of the tables that their latest versions do not name. All that they name must be there."""
    found: list[str] = []
    for name in TABLES:
        root = lake / "tables" / name
        live = {Path(uri).name for uri in DeltaTable(str(root)).file_uris()}
        there = {path.name for path in root.iterdir() if path.is_file()}
        assert live <= there, f"{name} lost {live - there}"
        found += sorted(there - live)
    return found


def test_the_undisturbed_removal_leaves_the_live_files_alone(removing: TopicScene) -> None:
    removals = [effect for effect in removing.effects if effect.startswith("unlink tables/decoded/orders/")]
    assert len(removals) == 2 * NIGHTS
    assert len(needless(removing.before)) == 4 * NIGHTS
    assert needless(removing.scratch / "lake") == []
    before = visible.tables(removing.before)
    assert {name: removing.undisturbed[name] for name in removing.tables} == {
        name: before[name] for name in removing.tables
    }


def test_a_removal_that_was_killed_loses_no_live_file_and_the_next_run_removes_the_rest(removing: TopicScene) -> None:
    places = kills(removing.effects, "removal of files of topics")

    def killed(forks: Forks, turn: int) -> str | None:
        number = places[turn]
        lake = removing.lake(f"removal-{number}")
        where = f"killed before effect {number + 1}, {removing.effects[number]}:"
        died = forks.run(removing.turn(lake, happening=Happening("kill", at=number + 1)))
        if died.code != -signal.SIGKILL:
            return f"{where} it did not die but ended with {died.code}: {died.said}"
        needless(lake)
        said = removing.difference(forks.run(removing.turn(lake, look_first=True)))
        left = needless(lake)
        shutil.rmtree(lake, ignore_errors=True)
        return (said or left) and f"{where} {said or left}"  # type: ignore[return-value]

    wrong = Scene.each(removing, killed, len(places))  # type: ignore[arg-type]
    assert not wrong, "\n".join(wrong)
