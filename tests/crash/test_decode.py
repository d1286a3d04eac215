"""Killed before any side effect of decode and run again: the tables of an undisturbed run, each row once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.crash import visible
from tests.crash.forks import Forks
from tests.crash.scene import lost_without_power
from tests.crash.side_effects import Happening
from tests.crash.topic_scene import FIRST, GROWN, REPLACED, Row, TopicScene, make_topic_scene

pytestmark = pytest.mark.crash

TABLES = ("decoded/orders", "undecoded/orders")
POLICIES = (
    "topics: {orders: {decode.key: string, decode.value: string}}",
    "topics: {orders: {decode.value: short}}",
)
SMALL = {"spark_jobs.decode.decode_job.TASK_BYTES": 1, "spark_jobs.engine.job_engine.IN_PROCESS_BYTES": {}}
"""A task for each file of `records`."""


def rows(turn: int) -> list[Row]:
    return [(b"a", b"\x00\x01"), (b"b", b"\xff%d" % turn), (b"c", None), (b"\xfe", b"\x00\x02"), (b"d", b"text")]


@pytest.fixture(scope="module", params=[FIRST, GROWN, REPLACED])
def decoding(
    request: pytest.FixtureRequest, forks: list[Forks], tmp_path_factory: pytest.TempPathFactory
) -> TopicScene:
    """The first run of decode, one over new rows in two logs, and one that replaces all rows under another policy."""
    scratch = tmp_path_factory.mktemp(f"decode-{request.param}")
    return make_topic_scene(
        "decode", TABLES, request.param, forks, scratch, policies=POLICIES, rows=rows, constants=SMALL
    )


def test_the_undisturbed_run_commits_both_tables_and_each_row_is_in_one_of_them(decoding: TopicScene) -> None:
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


@pytest.mark.long
def test_killed_before_any_side_effect_the_next_run_has_each_row_once(decoding: TopicScene) -> None:
    decoding.check_killed_once()


@pytest.mark.parametrize("decoding", [REPLACED], indirect=True)
def test_between_the_two_commits_of_a_replacement_the_topic_waits_with_whole_tables(decoding: TopicScene) -> None:
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


@pytest.mark.long
def test_killed_twice_at_random_the_third_run_has_each_row_once(decoding: TopicScene) -> None:
    decoding.check_killed_twice()
