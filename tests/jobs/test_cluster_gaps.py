"""Commits in damaged bytes, and commits without a high watermark: their rows once it is known what they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import handmade
from tests.jobs.test_cluster import Cluster, commit


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    return Cluster(tmp_path)


def damage(path: Path, batch: int) -> bytes:
    """Flip a byte of a batch; returns what the file was."""
    whole = path.read_bytes()
    position = 0
    for _ in range(batch):
        position += handmade.size_of(whole, position)
    path.write_bytes(handmade.flip(whole, position + 70))
    return whole


def standings(cluster: Cluster) -> list[tuple[int, int | None, str]]:
    rows = cluster.lake.rows("cluster_offset_commits")
    return sorted((row["record_offset"], row["committed_offset"], row["standing"]) for row in rows)


def test_commits_after_damage_have_rows_and_those_in_it_when_they_become_readable(cluster: Cluster) -> None:
    for number in range(1, 6):
        cluster.write(commit("a", number))
    cluster.stable()
    (segment,) = cluster.groups.segments()
    whole = damage(segment, 1)
    cluster.run()
    assert cluster.commits() == [("a", 1), ("a", 3), ("a", 4), ("a", 5)]
    before = cluster.lake.versions()
    cluster.run()
    assert cluster.lake.versions() == before
    segment.write_bytes(whole)
    cluster.write(commit("a", 6))
    cluster.stable()
    cluster.run()
    assert cluster.commits() == [("a", number) for number in range(1, 7)]
    before = cluster.lake.versions()
    cluster.run()
    assert cluster.lake.versions() == before


def test_growth_after_damage_has_each_row_once(cluster: Cluster) -> None:
    for number in range(1, 4):
        cluster.write(commit("a", number))
    cluster.stable()
    damage(cluster.groups.segments()[0], 1)
    for number in range(4, 7):
        cluster.run()
        cluster.write(commit("a", number))
        cluster.stable()
    cluster.run()
    assert cluster.commits() == [("a", number) for number in (1, 3, 4, 5, 6)]


def test_commits_of_a_segment_that_could_not_be_read_have_rows_later(cluster: Cluster) -> None:
    cluster.write(commit("a", 1))
    cluster.groups.roll()
    cluster.write(commit("a", 2))
    cluster.groups.roll()
    cluster.write(commit("a", 3))
    cluster.stable()
    segment = cluster.groups.segments()[1]
    kept = segment.rename(segment.with_suffix(".kept"))
    segment.symlink_to(segment)  # not even root can read it
    cluster.run()
    assert cluster.commits() == [("a", 1), ("a", 3)]
    segment.unlink()
    kept.rename(segment)
    cluster.run()
    assert cluster.commits() == [("a", 1), ("a", 2), ("a", 3)]


def without_high_watermark(cluster: Cluster) -> None:
    (cluster.source.path / "replication-offset-checkpoint").unlink()


def test_tentative_commits_become_committed_when_the_source_states_a_high_watermark(cluster: Cluster) -> None:
    cluster.write(commit("a", 1))
    cluster.write(commit("a", 2))
    without_high_watermark(cluster)
    cluster.run()
    assert standings(cluster) == [(0, 1, "tentative"), (1, 2, "tentative")]
    cluster.stable(1)
    cluster.run()
    assert standings(cluster) == [(0, 1, "committed"), (1, 2, "tentative")]
    cluster.write(commit("a", 3))
    cluster.stable()
    cluster.run()
    assert standings(cluster) == [(0, 1, "committed"), (1, 2, "committed"), (2, 3, "committed")]
    before = cluster.lake.versions()
    cluster.run()
    assert cluster.lake.versions() == before


def test_tentative_commits_that_the_log_lost_are_replaced_by_what_it_has_now(cluster: Cluster) -> None:
    cluster.write(commit("a", 1))
    cluster.write(commit("a", 2))
    without_high_watermark(cluster)
    cluster.run()
    cluster.groups.truncate(1)
    cluster.write(commit("b", 7))
    cluster.stable()
    cluster.run()
    assert cluster.commits() == [("a", 1), ("b", 7)]
    assert {standing for _, _, standing in standings(cluster)} == {"committed"}


def test_a_tentative_commit_that_the_cluster_removed_stays_tentative(cluster: Cluster) -> None:
    cluster.write(commit("a", 1))
    cluster.write(commit("a", 2))
    without_high_watermark(cluster)
    cluster.run()
    log: Any = cluster.groups
    for path in log.segments():
        path.unlink()
    log.roll(1)
    log.next_offset = 1
    cluster.write(commit("a", 2))
    cluster.stable()
    cluster.run()
    assert standings(cluster) == [(0, 1, "tentative"), (1, 2, "committed")]
