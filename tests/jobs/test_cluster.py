"""`cluster`: tables of internal topics, exactly once, after any history of runs."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from logcore.cli.main import main
from spark_jobs import launch
from spark_jobs.cluster.cluster_job import with_history
from spark_jobs.contracts import ClusterConfig, JobReport
from spark_jobs.engine import job_engine
from spark_jobs.errors import LakeRefused, UsageError
from spark_jobs.lake.delta import commits
from tests import handmade
from tests.broker_directory import CLUSTER, OTHER_TOPIC_ID, LogDirectory, Partition
from tests.spark.cycle import AS_OF_MS, Lake

COMMIT, ABORT = 1, 0
TABLES = ("cluster_offset_commits", "cluster_group_offsets", "cluster_groups", "cluster_group_members", "findings")


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def commit(group: str, offset: int | None, topic: str = "orders", partition: int = 0) -> tuple[bytes, bytes | None]:
    """A record of `__consumer_offsets`, by OffsetCommitKey 1 and OffsetCommitValue 3."""
    key = struct.pack(">h", 1) + text(group) + text(topic) + struct.pack(">i", partition)
    value = struct.pack(">hqi", 3, offset or 0, -1) + text("") + struct.pack(">q", 1_700_000_000_000)
    return key, None if offset is None else value


class Cluster:
    """A source with groups, and a lake of it."""

    def __init__(self, tmp_path: Path, cluster: str | None = CLUSTER) -> None:
        self.source, self.lake = LogDirectory(tmp_path / "source", cluster), Lake(tmp_path / "lake")
        self.orders = self.source.partition("orders-0")
        self.groups: Partition = self.source.partition("__consumer_offsets-0", OTHER_TOPIC_ID)
        self.orders.append(10)
        self.groups.roll()
        self.stable(0)
        self.lake.turn(self.source.path)

    def write(self, *rows: tuple[bytes, bytes | None], **fields: int) -> None:
        log = self.groups
        log.write(handmade.simple_batch(log.next_offset, rows, base_timestamp=1_700_000_000_000, **fields))
        log.next_offset += len(rows)

    def stable(self, offset: int | None = None) -> None:
        """Write the high watermark."""
        self.source.high_watermarks(
            orders_0=self.orders.next_offset,
            __consumer_offsets_0=self.groups.next_offset if offset is None else offset,
        )

    def run(self) -> JobReport:
        return launch.run(ClusterConfig(str(self.lake.path), "run", AS_OF_MS, (str(self.source.path),)))

    def commits(self) -> list[tuple[str, int | None]]:
        rows = sorted(self.lake.rows("cluster_offset_commits"), key=lambda row: row["record_offset"])
        return [(row["group"], row["committed_offset"]) for row in rows]

    def offsets(self) -> dict[str, tuple[Any, ...]]:
        return {
            row["group"]: (row["committed_offset"], row["high_watermark"], row["lag"])
            for row in self.lake.rows("cluster_group_offsets")
        }


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def test_every_commit_has_one_row_while_the_log_grows(cluster: Cluster) -> None:
    for number in range(1, 5):
        cluster.write(commit("a", number), commit("b", number))
        cluster.stable()
        cluster.run()
        cluster.run()
    assert cluster.commits() == [(group, number) for number in range(1, 5) for group in "ab"]
    assert cluster.offsets() == {"a": (4, 10, 6), "b": (4, 10, 6)}


def test_large_internal_logs_are_read_by_tasks_a_dry_run_reads_them_too_and_nothing_new_moves_no_table(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.write(commit("a", 1), commit("b", 2))
    cluster.stable()
    config = ClusterConfig(str(cluster.lake.path), "run", AS_OF_MS, (str(cluster.source.path),))
    read_in_plan = launch.plan(config)
    assert read_in_plan.task_bytes is None
    monkeypatch.setattr(job_engine, "IN_PROCESS_BYTES", {})
    planned = launch.plan(config)
    segments = sum(path.stat().st_size for path in cluster.groups.segments())
    assert planned.task_bytes == 2 * segments, "once for the commits, once for the groups"
    would = planned.outline
    assert would == read_in_plan.outline
    assert would.rows["cluster_offset_commits"] == 2
    assert cluster.run().plan == would
    assert cluster.commits() == [("a", 1), ("b", 2)]
    assert cluster.offsets() == {"a": (1, 10, 9), "b": (2, 10, 8)}
    tables = list(cluster.lake.path.glob("tables/cluster_*"))
    before = {table.name: DeltaTable(table).version() for table in tables}
    again = cluster.run()
    assert again.metrics == {"commits": 0, "tables": 0}
    assert {table.name: DeltaTable(table).version() for table in tables} == before


def test_commits_from_the_high_watermark_on_wait(cluster: Cluster) -> None:
    cluster.write(commit("a", 1))
    cluster.write(commit("a", 2))
    cluster.stable(1)
    cluster.run()
    assert cluster.commits() == [("a", 1)]
    cluster.stable()
    cluster.run()
    assert cluster.commits() == [("a", 1), ("a", 2)]


def test_a_deleted_commit_has_a_row_that_says_so(cluster: Cluster) -> None:
    cluster.write(commit("a", 3))
    cluster.write(commit("a", None))
    cluster.stable()
    cluster.run()
    rows = sorted(cluster.lake.rows("cluster_offset_commits"), key=lambda row: row["record_offset"])
    assert [(row["group"], row["committed_offset"], row["is_deleted"]) for row in rows] == [
        ("a", 3, False),
        ("a", None, True),
    ]
    assert cluster.offsets() == {}


@pytest.mark.parametrize("epoch", [-1, 5])
def test_a_commit_has_the_same_row_in_each_version_of_its_value(cluster: Cluster, epoch: int) -> None:
    """By OffsetCommitValue 1 and 3: 1 has no leader epoch, and ends with a time of expiry."""
    key, _ = commit("a", 4)
    time = 1_700_000_000_000
    cluster.write((key, struct.pack(">hq", 1, 4) + text("note") + struct.pack(">qq", time, time)))
    cluster.write((key, struct.pack(">hqi", 3, 4, epoch) + text("note") + struct.pack(">q", time)))
    cluster.stable()
    cluster.run()
    first, second = sorted(cluster.lake.rows("cluster_offset_commits"), key=lambda row: row["record_offset"])
    assert (first["leader_epoch"], second["leader_epoch"]) == (None, None if epoch < 0 else epoch)
    assert first | {"record_offset": 1, "leader_epoch": None} == second | {"leader_epoch": None}
    assert (second["group"], second["committed_offset"], second["metadata"]) == ("a", 4, "note")
    assert second["commit_time"].timestamp() * 1000 == time
    assert not second["is_deleted"]


@pytest.mark.parametrize(("kind", "expected"), [(COMMIT, [("t", 3), ("a", 4)]), (ABORT, [("a", 4)])])
def test_commits_of_a_transaction_have_rows_when_it_committed(
    cluster: Cluster, kind: int, expected: list[tuple[str, int]]
) -> None:
    cluster.write(commit("t", 3), producer_id=7, producer_epoch=0, base_sequence=0, attributes=0x10)
    cluster.write(commit("a", 4))
    cluster.stable()
    cluster.run()
    assert cluster.commits() == []
    cluster.groups.marker(7, kind)
    cluster.stable()
    cluster.run()
    assert cluster.commits() == expected


def test_the_commits_that_the_cluster_removed_keep_their_rows(cluster: Cluster) -> None:
    cluster.write(commit("a", 1))
    cluster.write(commit("a", 2))
    cluster.stable()
    cluster.run()
    log = cluster.groups
    for path in log.segments():
        path.unlink()
    log.roll(2)
    cluster.write(commit("a", None))
    cluster.stable()
    cluster.run()
    assert cluster.commits() == [("a", 1), ("a", 2), ("a", None)]
    assert cluster.offsets() == {}


def test_a_commit_beyond_the_end_of_its_log_is_a_finding_once(cluster: Cluster) -> None:
    cluster.write(commit("a", 11), commit("b", 10))
    cluster.stable()
    cluster.run()
    cluster.run()
    found = [row for row in cluster.lake.rows("findings") if row["rule"] == "commit-beyond-log-end"]
    assert [(row["start_offset"], row["end_offset"]) for row in found] == [(10, 11)]
    assert "Group a " in found[0]["message"]


@pytest.mark.parametrize("is_last_of_two", [False, True])
def test_a_log_whose_last_segment_cannot_be_read_may_reach_the_commit(cluster: Cluster, is_last_of_two: bool) -> None:
    if is_last_of_two:
        cluster.orders.roll()
        cluster.orders.append(5)
    cluster.write(commit("a", 12))
    cluster.source.high_watermarks(orders_0=15, __consumer_offsets_0=cluster.groups.next_offset)
    segment = cluster.orders.segments()[-1]
    segment.unlink()
    segment.symlink_to(segment)  # not even root can read it
    cluster.run()
    assert "commit-beyond-log-end" not in cluster.lake.rules()
    assert cluster.offsets() == {"a": (12, 15, 3)}


def test_rows_of_a_source_that_is_away_stay(cluster: Cluster) -> None:
    cluster.write(commit("a", 1))
    cluster.stable()
    cluster.run()
    before = cluster.lake.versions()
    shutil.rmtree(cluster.source.path)
    assert cluster.run().plan.logs == ()
    assert cluster.lake.versions() == before


def group_of(directory: LogDirectory, group: str) -> Path:
    """Write `__consumer_offsets-0` with a commit of a group; returns the log directory."""
    log = directory.partition("__consumer_offsets-0", OTHER_TOPIC_ID)
    log.roll()
    log.write(handmade.simple_batch(0, [commit(group, 3)]))
    directory.high_watermarks(__consumer_offsets_0=1)
    return directory.path


@pytest.mark.parametrize("with_own_source", [False, True])
def test_a_source_of_another_cluster_is_refused_and_nothing_is_written(
    cluster: Cluster, with_own_source: bool, tmp_path: Path
) -> None:
    other = group_of(LogDirectory(tmp_path / "other", cluster="DDDDDDDDDDDDDDDDDDDDDD"), "theirs")
    sources = (str(cluster.source.path), str(other)) if with_own_source else (str(other),)
    with pytest.raises((LakeRefused, UsageError), match="DDDDDDDDDDDDDDDDDDDDDD"):
        launch.run(ClusterConfig(str(cluster.lake.path), "run", AS_OF_MS, sources))
    assert cluster.commits() == []


def test_a_source_that_states_no_cluster_is_of_the_cluster_of_the_lake(cluster: Cluster, tmp_path: Path) -> None:
    copy = group_of(LogDirectory(tmp_path / "copy", cluster=None), "ours")
    launch.run(ClusterConfig(str(cluster.lake.path), "run", AS_OF_MS, (str(copy),)))
    (row,) = cluster.lake.rows("cluster_group_offsets")
    assert (row["group"], row["cluster"]) == ("ours", CLUSTER)


def test_a_run_that_stops_at_any_commit_is_completed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopped(Exception):
        """The process ended here."""

    def rows(cluster: Cluster) -> dict[str, Any]:
        return {table: cluster.lake.rows(table) for table in TABLES}

    def prepared(path: Path) -> Cluster:
        made = Cluster(path)
        made.write(commit("a", 11), commit("b", 3))
        made.stable()
        return made

    whole = prepared(tmp_path / "whole")
    whole.run()
    land = commits.TableCommit._land
    stops = 0
    for stop_at in range(20):
        stopped = prepared(tmp_path / f"stopped-{stop_at}")
        left = [stop_at]

        def once(self: Any, *arguments: Any, left: list[int] = left, **named: Any) -> None:
            left[0] -= 1
            if left[0] == -1:
                raise Stopped
            land(self, *arguments, **named)

        with monkeypatch.context() as patch:
            patch.setattr(commits.TableCommit, "_land", once)
            try:
                stopped.run()
            except Stopped:
                stops += 1
        stopped.run()
        assert rows(stopped) == rows(whole)
        if left[0] >= 0:
            break
    assert stops >= 4


def test_the_command_prints_the_tables_and_findings(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    cluster.write(commit("a", 11))
    cluster.stable()
    lake, source = str(cluster.lake.path), str(cluster.source.path)
    assert main(["cluster", lake]) == 64
    assert "--source PATH" in capsys.readouterr().err
    assert main(["cluster", lake, "--source", source, "--dry-run"]) == 1
    assert "cluster_offset_commits: 1 row would be written" in capsys.readouterr().out
    assert cluster.commits() == []
    assert main(["cluster", lake, "--source", source]) == 1
    captured = capsys.readouterr()
    assert "cluster_group_offsets: 1 row written" in captured.out
    message = "Group a has committed offset 11 of orders-0, whose log ends at 10."
    assert f"warning commit-beyond-log-end: {message}" in captured.err.splitlines()
    assert main(["cluster", lake, "--source", source]) == 0
    assert capsys.readouterr().out == "nothing new\n"


def test_the_command_says_which_named_source_is_no_log_directory(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    cluster.write(commit("a", 1))
    cluster.stable()
    lake, missing = str(cluster.lake.path), tmp_path / "missing"
    assert main(["cluster", lake, "--source", str(missing)]) == 3
    captured = capsys.readouterr()
    assert captured.err == f"error path-not-found: {missing} does not exist.\n"
    assert "no source has an internal topic" in captured.out
    assert main(["cluster", lake, "--source", str(missing), "--source", str(cluster.source.path)]) == 3
    captured = capsys.readouterr()
    assert captured.err == f"error path-not-found: {missing} does not exist.\n"
    assert "cluster_group_offsets: 1 row written" in captured.out


BEGIN, END = (None, b"\1\x17\0\0"), (None, b"\1\x18\0\0")


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"-")


def created(name: str) -> tuple[None, bytes]:
    """By TopicRecord 0."""
    return None, b"\1\2\0" + bytes([len(name) + 1]) + name.encode() + topic_id(name) + b"\0"


def removed(name: str) -> tuple[None, bytes]:
    """By RemoveTopicRecord 0."""
    return None, b"\1\x09\0" + topic_id(name) + b"\0"


def topics_of(tmp_path: Path, *records: tuple[None, bytes]) -> tuple[JobReport, list[tuple[Any, ...]]]:
    """The report of a run over a metadata log of these records, and the topics of the lake with their offsets."""
    source = tmp_path / "metadata" / "__cluster_metadata-0"
    source.mkdir(parents=True, exist_ok=True)
    batches = [handmade.simple_batch(at, [record], leader_epoch=1) for at, record in enumerate(records)]
    (source / f"{0:020d}.log").write_bytes(b"".join(batches))
    lake = Lake(tmp_path / "lake")
    report = launch.run(ClusterConfig(str(lake.path), "run", AS_OF_MS, (str(source),)))
    rows = lake.rows("cluster_topics")
    return report, sorted((row["topic"], row["valid_from_offset"], row["valid_to_offset"]) for row in rows)


def test_a_topic_that_its_own_transaction_removed_has_no_row(tmp_path: Path) -> None:
    _, topics = topics_of(tmp_path, created("a"), BEGIN, created("e"), removed("e"), created("f"), END, removed("a"))
    assert topics == [("a", 0, 6), ("f", 5, None)]


def test_an_older_copy_of_the_metadata_log_changes_nothing(tmp_path: Path) -> None:
    newest = [created("a"), created("b"), removed("a"), created("c")]
    report, topics = topics_of(tmp_path, *newest)
    assert topics == [("a", 0, 2), ("b", 1, None), ("c", 3, None)]
    assert not report.plan.waits
    report, after = topics_of(tmp_path, *newest[:2])
    assert after == topics
    (why,) = report.plan.waits.values()
    assert why == "the tables have offset 3, and the source ends at 2"


def test_lag_of_committed_readers_ends_at_the_oldest_open_transaction(cluster: Cluster) -> None:
    cluster.orders.append(5, producer_id=7, producer_epoch=0, base_sequence=0, attributes=0x10)
    cluster.write(commit("a", 4))
    cluster.stable()
    cluster.lake.turn(cluster.source.path)
    cluster.run()
    (row,) = cluster.lake.rows("cluster_group_offsets")
    assert (row["high_watermark"], row["last_stable_offset"]) == (15, 10)
    assert (row["lag"], row["lag_read_committed"]) == (11, 6)


def test_history_before_the_beginning_of_the_source_stays() -> None:
    def row(name: str, value: str, start: int, end: int | None) -> dict[str, object]:
        return {
            "name": name,
            "value": value,
            "valid_from_offset": start,
            "valid_from_time": None,
            "valid_to_offset": end,
            "valid_to_time": None,
            "standing": "committed",
        }

    known = [row("same", "1", 2, None), row("old", "1", 1, 4), row("changed", "1", 3, None), row("gone", "1", 5, None)]
    read = [row("same", "1", 9, None), row("changed", "2", 9, None), row("new", "1", 12, None)]
    together = with_history(known, read, ("name",), 10)
    assert sorted((r["name"], r["value"], r["valid_from_offset"], r["valid_to_offset"]) for r in together) == [
        ("changed", "1", 3, 9),
        ("changed", "2", 9, None),
        ("gone", "1", 5, 9),
        ("new", "1", 12, None),
        ("old", "1", 1, 4),
        ("same", "1", 2, None),
    ]
