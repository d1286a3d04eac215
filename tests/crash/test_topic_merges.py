"""Killed before any side effect of the merge of decoded tables and run again: the same rows, and one file for each log.

Optimize merges the state tables of the lake before these tables. So a run that dies there is part of the claim.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests import handmade
from tests.broker_directory import LogDirectory
from tests.crash import visible
from tests.crash.forks import Forks, Turn
from tests.crash.scene import lost_without_power
from tests.crash.topic_scene import TopicScene, undisturbed

pytestmark = pytest.mark.crash

TABLES = ("decoded/orders", "undecoded/orders")
NIGHTS = 3


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
