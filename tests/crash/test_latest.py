"""Killed before any side effect of `latest` and run again: the table of an undisturbed run, each key once."""

from __future__ import annotations

import pytest

from tests.crash.forks import Forks
from tests.crash.scene import lost_without_power
from tests.crash.topic_scene import FIRST, GROWN, REPLACED, Row, TopicScene, make_topic_scene

pytestmark = pytest.mark.crash

TABLE = "latest/orders"
POLICY = "topics: {orders: {latest: %s, compaction.spread.bytes: %d}}"
ONE_TASK, MANY_TASKS = 1 << 30, 0


def rows(turn: int) -> list[Row]:
    return [(b"a", b"%d" % turn), (b"b", None if turn else b"1"), (b"c-%d" % turn, b"x"), (None, b"y"), (b"d", None)]


@pytest.fixture(
    scope="module", params=[(FIRST, ONE_TASK), (GROWN, ONE_TASK), (REPLACED, ONE_TASK), (GROWN, MANY_TASKS)]
)
def keeping(request: pytest.FixtureRequest, forks: list[Forks], tmp_path_factory: pytest.TempPathFactory) -> TopicScene:
    """The first run, one over new rows in two logs, and one that computes all rows under another policy."""
    kind, spread_bytes = request.param
    scratch = tmp_path_factory.mktemp(f"latest-{kind}-{spread_bytes}")
    return make_topic_scene(
        "latest",
        (TABLE,),
        kind,
        forks,
        scratch,
        policies=(POLICY % ("delete", spread_bytes), POLICY % ("soft-delete", spread_bytes)),
        rows=rows,
        constants={"spark_jobs.latest.latest_task.PART_BYTES": 1_000},
    )


def test_the_undisturbed_run_commits_once_and_loses_nothing_without_power(keeping: TopicScene) -> None:
    assert "commit tables/latest/orders" in keeping.effects
    lost = lost_without_power(keeping.journal)
    assert not lost, "\n".join(lost)
    # a, b, c-0 of two logs; then a, c-0, c-1; with b and d as deleted rows
    assert len(keeping.undisturbed[TABLE]) == (10 if "replace" in keeping.options else 6)


@pytest.mark.long
def test_killed_before_any_side_effect_the_next_run_has_each_key_once(keeping: TopicScene) -> None:
    keeping.check_killed_once()


def test_killed_twice_at_random_the_third_run_has_each_key_once(keeping: TopicScene) -> None:
    keeping.check_killed_twice()
