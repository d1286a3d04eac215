"""A source that stated no cluster id at first: its rows become rows of the cluster as soon as the id is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_jobs import launch
from spark_jobs.contracts import ClusterConfig
from spark_jobs.errors import LakeRefused
from spark_jobs.lake.cluster.cluster_settings import settings_at
from spark_jobs.lake.cluster_columns import CLUSTER_TABLES
from tests import handmade
from tests.broker_directory import CLUSTER, OTHER_TOPIC_ID, LogDirectory
from tests.jobs.test_cluster import ABORT, COMMIT, Cluster, commit, created, removed
from tests.spark.cycle import AS_OF_MS, Lake

NAMES = [table.name for table in CLUSTER_TABLES]
META = f"version=1\ncluster.id={CLUSTER}\nnode.id=1\n"


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path, cluster=None)


def name_it(cluster: Cluster) -> None:
    (cluster.source.path / "meta.properties").write_text(META)


def named(lake: Lake) -> set[tuple[str, bool]]:
    """The clusters of all rows, and whether the internal log begins with the same name."""
    rows = [row for name in NAMES for row in lake.rows(name)]
    return {(row["cluster"], row["internal_log"].startswith(f"{row['cluster']}/")) for row in rows}


def test_rows_of_groups_and_commits_get_the_id_and_each_is_there_once(cluster: Cluster) -> None:
    cluster.write(commit("a", 1), commit("b", 1))
    cluster.stable()
    cluster.run()
    assert named(cluster.lake) == {("unknown", True)}
    name_it(cluster)
    cluster.write(commit("a", 2))
    cluster.stable()
    cluster.run()
    assert named(cluster.lake) == {(CLUSTER, True)}
    assert cluster.commits() == [("a", 1), ("b", 1), ("a", 2)]
    assert cluster.offsets() == {"a": (2, 10, 8), "b": (1, 10, 9)}
    before = cluster.lake.versions()
    cluster.run()
    assert cluster.lake.versions() == before


def test_commits_that_the_source_no_longer_has_get_the_id_too(cluster: Cluster) -> None:
    cluster.write(commit("a", 1))
    cluster.write(commit("a", 2))
    cluster.stable()
    cluster.run()
    name_it(cluster)
    for path in cluster.groups.segments():
        path.unlink()
    cluster.groups.roll(2)
    cluster.write(commit("a", 3))
    cluster.stable()
    cluster.run()
    assert named(cluster.lake) == {(CLUSTER, True)}
    assert cluster.commits() == [("a", 1), ("a", 2), ("a", 3)]


def test_both_names_of_an_earlier_version_become_one(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.write(commit("a", 1))
    cluster.stable()
    cluster.run()
    name_it(cluster)
    with monkeypatch.context() as earlier:
        earlier.setattr("spark_jobs.cluster.new_commits.unnamed", lambda _: None)
        cluster.run()
    assert len(cluster.lake.rows("cluster_offset_commits")) == 2
    cluster.run()
    assert named(cluster.lake) == {(CLUSTER, True)}
    assert cluster.commits() == [("a", 1)]


def metadata(folder: Path, start: int, *records: tuple[None, bytes]) -> Path:
    """Write `__cluster_metadata-0` with a batch for each record, from an offset on."""
    log = folder / "__cluster_metadata-0"
    log.mkdir(parents=True, exist_ok=True)
    for file in log.iterdir():
        file.unlink()
    batches = [handmade.simple_batch(start + at, [record], leader_epoch=1) for at, record in enumerate(records)]
    (log / f"{start:020d}.log").write_bytes(b"".join(batches))
    return folder


def rows_over_time(lake: Lake) -> list[tuple[Any, ...]]:
    columns = ("cluster", "topic", "valid_from_offset", "valid_to_offset")
    return sorted(tuple(row[name] for name in columns) for row in lake.rows("cluster_topics"))


def test_what_was_valid_before_the_id_was_known_keeps_its_offsets(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    source = metadata(tmp_path / "source", 0, created("a"), created("b"), removed("a"))
    config = ClusterConfig(str(lake.path), "run", AS_OF_MS, (str(source),))
    launch.run(config)
    assert rows_over_time(lake) == [("unknown", "a", 0, 2), ("unknown", "b", 1, None)]
    (source / "meta.properties").write_text(META)
    launch.run(config)
    assert rows_over_time(lake) == [(CLUSTER, "a", 0, 2), (CLUSTER, "b", 1, None)]


def test_rows_of_a_source_that_is_not_there_stay_as_they_are(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, cluster=None)
    cluster.write(commit("a", 1))
    cluster.stable()
    cluster.run()
    before = cluster.lake.rows("cluster_offset_commits")
    elsewhere = metadata(tmp_path / "elsewhere", 0, created("a"))
    (elsewhere / "meta.properties").write_text(META)
    launch.run(ClusterConfig(str(cluster.lake.path), "run", AS_OF_MS, (str(elsewhere),)))
    assert cluster.lake.rows("cluster_offset_commits") == before


def unnamed_intake(tmp_path: Path) -> Lake:
    """A lake whose intake was from a source that states no cluster."""
    source = LogDirectory(tmp_path / "intake", None)
    source.partition("orders-0").append(3)
    source.high_watermarks(orders_0=3)
    lake = Lake(tmp_path / "lake")
    lake.turn(source.path)
    return lake


def read(lake: Lake, *sources: Path) -> None:
    launch.run(ClusterConfig(str(lake.path), "run", AS_OF_MS, tuple(map(str, sources))))


def known_topics(lake: Lake) -> list[str]:
    return [each.topic for each in settings_at(str(lake.path), AS_OF_MS)]


def test_policies_have_the_settings_of_the_cluster_before_and_after_its_id_is_known(tmp_path: Path) -> None:
    lake = unnamed_intake(tmp_path)
    source = metadata(tmp_path / "source", 0, created("orders"))
    read(lake, source)
    assert known_topics(lake) == ["orders"]
    (source / "meta.properties").write_text(META)
    read(lake, source)
    assert rows_over_time(lake) == [(CLUSTER, "orders", 0, None)]
    assert known_topics(lake) == ["orders"]


def test_policies_have_the_settings_of_a_metadata_log_that_was_not_there_when_the_id_became_known(
    tmp_path: Path,
) -> None:
    lake = unnamed_intake(tmp_path)
    read(lake, metadata(tmp_path / "source", 0, created("orders")))
    groups = LogDirectory(tmp_path / "groups")
    groups.partition("__consumer_offsets-0", OTHER_TOPIC_ID).append(1)
    read(lake, groups.path)
    assert known_topics(lake) == ["orders"]


@pytest.mark.parametrize("has_intake", [True, False])
def test_rows_of_a_source_that_no_longer_states_the_id_keep_it(tmp_path: Path, has_intake: bool) -> None:
    lake = unnamed_intake(tmp_path) if has_intake else Lake(tmp_path / "lake")
    source = metadata(tmp_path / "source", 0, created("a"))
    read(lake, source)
    (source / "meta.properties").write_text(META)
    read(lake, source)
    (source / "meta.properties").unlink()
    before = lake.versions()
    read(lake, source)
    assert rows_over_time(lake) == [(CLUSTER, "a", 0, None)]
    assert lake.versions() == before


def test_a_lake_whose_rows_have_an_id_takes_no_source_of_another_cluster(tmp_path: Path) -> None:
    lake = unnamed_intake(tmp_path)
    source = metadata(tmp_path / "source", 0, created("a"))
    (source / "meta.properties").write_text(META)
    read(lake, source)
    (source / "meta.properties").write_text(META.replace(CLUSTER, "another"))
    with pytest.raises(LakeRefused, match="another"):
        read(lake, source)


@pytest.mark.parametrize("is_named", [True, False])
def test_a_tentative_commit_whose_transaction_is_aborted_now_stays_tentative_also_under_the_id(
    cluster: Cluster, is_named: bool
) -> None:
    cluster.write(commit("a", 1))
    cluster.write(commit("t", 3), producer_id=7, producer_epoch=0, base_sequence=0, attributes=0x10)
    cluster.groups.marker(7, COMMIT)
    (cluster.source.path / "replication-offset-checkpoint").unlink()
    cluster.run()
    cluster.groups.truncate(2)
    cluster.groups.marker(7, ABORT)
    cluster.write(commit("a", 2))
    cluster.stable()
    if is_named:
        name_it(cluster)
    for _ in range(2):
        cluster.run()
        rows = cluster.lake.rows("cluster_offset_commits")
        assert sorted((row["record_offset"], row["group"], row["standing"]) for row in rows) == [
            (0, "a", "committed"),
            (1, "t", "tentative"),
            (3, "a", "committed"),
        ]
        assert cluster.offsets() == {"a": (2, 10, 8)}
    assert named(cluster.lake) == {(CLUSTER if is_named else "unknown", True)}
