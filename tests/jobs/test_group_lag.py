"""The lag of groups over the runs of a lake, and its plot."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from pipelines.metadata.lag_picture import MOST_GROUPS, lag_picture
from spark_jobs.lake.view.cluster.group_lag import FoundLag, lag_history, total_lag
from tests.jobs.test_cluster import Cluster, commit

TEXT, LINE = "{http://www.w3.org/2000/svg}text", "{http://www.w3.org/2000/svg}polyline"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    return Cluster(tmp_path)


def test_each_run_that_changed_the_offsets_is_a_point_of_the_history(cluster: Cluster) -> None:
    for offset, other in ((2, None), (7, 1), (9, 1), (9, 1)):
        cluster.write(
            commit("a", offset), *([] if other is None else [commit("b", other), commit("b", 0, "orders", 0)])
        )
        cluster.stable()
        cluster.run()
    lake = str(cluster.lake.path)
    history = lag_history(lake)
    last = {"a": 1, "b": 10}
    assert [dict(found.lags) for found in history] == [{"a": 8}, {"a": 3, "b": 10}, last, last]
    assert [found.time_ms for found in history] == sorted(found.time_ms for found in history)
    assert [dict(found.lags) for found in lag_history(lake, most=1)] == [last]
    assert total_lag(lake) == 11


def test_a_commit_beyond_the_end_of_a_log_takes_nothing_from_the_lag_of_others(cluster: Cluster) -> None:
    cluster.write(commit("a", 2), commit("b", 90))
    cluster.stable()
    cluster.run()
    lake = str(cluster.lake.path)
    assert total_lag(lake) == 8
    assert [dict(found.lags) for found in lag_history(lake)] == [{"a": 8, "b": 0}]


def test_the_history_begins_where_files_of_earlier_versions_are_gone(cluster: Cluster) -> None:
    for offset in (2, 7):
        cluster.write(commit("a", offset))
        cluster.stable()
        cluster.run()
    table = cluster.lake.path / "tables" / "cluster_group_offsets"
    oldest = min(table.glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    oldest.unlink()
    assert [dict(found.lags) for found in lag_history(str(cluster.lake.path))] == [{"a": 3}]


def test_a_lake_without_the_table_has_no_history(tmp_path: Path) -> None:
    assert lag_history(str(tmp_path / "lake")) == ()
    assert total_lag(str(tmp_path / "lake")) == 0


def test_the_plot_has_a_line_for_each_of_the_groups_with_the_greatest_lag() -> None:
    lags = {f"group <{number}>": number for number in range(MOST_GROUPS + 3)}
    history = [FoundLag(1_700_000_000_000, lags), FoundLag(1_700_000_060_000, {"group <10>": 0})]
    root = ElementTree.fromstring(lag_picture(history))
    lines = [each.get("points") for each in root.iter(LINE)]
    assert len(lines) == MOST_GROUPS
    assert lines[0] == "90.0,28.0 984.0,268.0"
    texts = [each.text or "" for each in root.iter(TEXT)]
    assert "group <10>: lag 0" in texts
    assert "lag in offsets, after each run that changed it" in texts
    assert "… and 3 more groups" in texts
    assert {"2023-11-14 22:13:20 UTC", "2023-11-14 22:14:20 UTC"} <= set(texts)


def test_a_plot_of_one_run_is_a_point() -> None:
    root = ElementTree.fromstring(lag_picture([FoundLag(0, {"a": 5})]))
    assert [each.get("points") for each in root.iter(LINE)] == ["90.0,28.0"]
