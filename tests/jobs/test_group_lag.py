"""The lag of groups, as runs of a lake find it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.lake.view.cluster_tables import group_lags
from tests.jobs.test_cluster import Cluster, commit


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    return Cluster(tmp_path)


def test_each_run_finds_the_lag_of_each_group_the_greatest_first(cluster: Cluster) -> None:
    found = []
    for offset, other in ((2, None), (7, 1), (9, 1)):
        cluster.write(
            commit("a", offset), *([] if other is None else [commit("b", other), commit("b", 0, "orders", 0)])
        )
        cluster.stable()
        cluster.run()
        found.append(list(group_lags(str(cluster.lake.path)).items()))
    assert found == [[("a", 8)], [("b", 10), ("a", 3)], [("b", 10), ("a", 1)]]


def test_a_commit_beyond_the_end_of_a_log_takes_nothing_from_the_lag_of_others(cluster: Cluster) -> None:
    cluster.write(commit("a", 2), commit("b", 90))
    cluster.stable()
    cluster.run()
    assert group_lags(str(cluster.lake.path)) == {"a": 8, "b": 0}


def test_a_lake_without_the_table_has_no_lag(tmp_path: Path) -> None:
    assert group_lags(str(tmp_path / "lake")) == {}
