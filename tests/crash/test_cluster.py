"""Killed before any side effect of `cluster` and run again: the tables of an undisturbed run, each commit once."""

from __future__ import annotations

import shutil
import signal
import struct
from pathlib import Path

import pytest

from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory, Partition
from tests.crash.forks import Forks, Turn
from tests.crash.scene import lost_without_power
from tests.crash.side_effects import Happening
from tests.crash.topic_scene import FIRST, GROWN, TopicScene, undisturbed

pytestmark = pytest.mark.crash

TABLES = (
    "cluster_offset_commits",
    "cluster_group_offsets",
    "cluster_groups",
    "cluster_topics",
    "cluster_transactional_ids",
    "findings",
)
NOW_MS = 1_700_000_000_000


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def commit(group: str, offset: int) -> tuple[bytes, bytes]:
    """By OffsetCommitKey 1 and OffsetCommitValue 3."""
    key = struct.pack(">h", 1) + text(group) + text("orders") + struct.pack(">i", 0)
    return key, struct.pack(">hqi", 3, offset, -1) + text("") + struct.pack(">q", NOW_MS)


def transaction(name: str, producer_id: int) -> tuple[bytes, bytes]:
    """By TransactionLogKey 0 and TransactionLogValue 0, without partitions."""
    key = struct.pack(">h", 0) + text(name)
    return key, struct.pack(">hqhibiqq", 0, producer_id, 0, 60_000, 4, -1, NOW_MS, NOW_MS)


def topic(name: str) -> tuple[None, bytes]:
    """By TopicRecord 0."""
    return None, b"\1\2\0" + bytes([len(name) + 1]) + name.encode() + name.encode().ljust(16, b"-") + b"\0"


class Source:
    """A log directory with internal topics that grow in each turn."""

    def __init__(self, path: Path) -> None:
        self.directory = LogDirectory(path)
        self.orders = self.directory.partition("orders-0")
        self.orders.append(10)
        self.logs: dict[str, Partition] = {
            "__consumer_offsets": self.directory.partition("__consumer_offsets-0", OTHER_TOPIC_ID),
            "__transaction_state": self.directory.partition("__transaction_state-0", "DDDDDDDDDDDDDDDDDDDDDg"),
            "__cluster_metadata": self.directory.partition("__cluster_metadata-0", None),
        }
        for log in self.logs.values():
            log.roll()

    def grow(self, turn: int) -> None:
        """The group of the first turn commits beyond the end of the log, which is a finding."""
        self.write("__consumer_offsets", commit("a", 11 + turn), commit(f"g-{turn}", turn))
        self.write("__transaction_state", transaction(f"t-{turn}", turn))
        self.write("__cluster_metadata", topic(f"topic-{turn}"))
        ends = {f"{name}_0": log.next_offset for name, log in self.logs.items() if name != "__cluster_metadata"}
        self.directory.high_watermarks(orders_0=10, **ends)

    def write(self, name: str, *rows: tuple[bytes | None, bytes]) -> None:
        log = self.logs[name]
        log.write(handmade.simple_batch(log.next_offset, list(rows), base_timestamp=NOW_MS, leader_epoch=0))
        log.next_offset += len(rows)


@pytest.fixture(scope="module", params=[FIRST, GROWN])
def writing(request: pytest.FixtureRequest, forks: list[Forks], tmp_path_factory: pytest.TempPathFactory) -> TopicScene:
    """The first run, and one over internal topics that have grown."""
    scratch = tmp_path_factory.mktemp(f"cluster-{request.param}")
    source, lake = Source(scratch / "source"), scratch / "lake"
    options = {"sources": [str(source.directory.path)]}
    scene = TopicScene("cluster", TABLES, forks, scratch, options, {})
    source.grow(0)
    ended = forks[0].run(Turn(str(lake), str(source.directory.path)))
    assert ended.code == 0, ended.said
    if request.param == GROWN:
        ended = forks[0].run(scene.turn(lake))
        assert ended.code == 0, ended.said
        source.grow(1)
    return undisturbed(scene, forks[0], lake, scratch / "journal")


def test_the_undisturbed_run_commits_each_table_once_and_loses_nothing_without_power(writing: TopicScene) -> None:
    commits = [effect for effect in writing.effects if effect.startswith("commit tables/cluster_")]
    assert len(commits) >= 5
    assert len(writing.undisturbed["cluster_offset_commits"]) in (2, 4)
    lost = lost_without_power(writing.journal)
    assert not lost, "\n".join(lost)


def test_killed_before_each_commit_the_next_run_has_each_row_once(writing: TopicScene) -> None:
    """A process of its own dies before each commit of the job; the next one completes the tables."""
    places = [at for at, effect in enumerate(writing.effects) if effect.startswith("commit ")]
    assert len(places) >= 6
    for at in places:
        lake = writing.lake(f"commit-{at}")
        died = writing.forks[0].run(writing.turn(lake, happening=Happening("kill", at=at + 1)))
        assert died.code == -signal.SIGKILL, died.said
        assert writing.difference(writing.forks[0].run(writing.turn(lake, look_first=True))) is None
        shutil.rmtree(lake)


@pytest.mark.long
def test_killed_before_any_side_effect_the_next_run_has_each_row_once(writing: TopicScene) -> None:
    writing.check_killed_once()


@pytest.mark.long
def test_killed_twice_at_random_the_third_run_has_each_row_once(writing: TopicScene) -> None:
    writing.check_killed_twice()
