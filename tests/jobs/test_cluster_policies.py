"""Policies with `from: cluster` in jobs: what the cluster said as of the run's clock, and nothing in doubt."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logcore.cli.main import main
from pipelines.run.chains import INTAKE
from pipelines.run.direct import run_steps
from pipelines.run.look import outcome_without_work
from pipelines.run.run_request import RunRequest
from pipelines.run.steps import Run
from spark_jobs import launch
from spark_jobs.contracts import ClusterConfig, CompactionConfig, Intake, JobReport, RetentionConfig
from spark_jobs.lake.cluster.cluster_settings import settings_at
from spark_jobs.outlines import RetentionOutline
from spark_jobs.policies.policies_file import read_policies
from tests.broker_directory import LogDirectory
from tests.jobs.test_decode_in_a_run import Jobs
from tests.metadata_log import MetadataLog, created, removed, setting, topic_id_text
from tests.spark.archived import append_segment, spans
from tests.spark.cycle import AS_OF_MS, Lake

NEWEST = 1_700_000_004_000
"""The newest segment's time; the four segments are a second apart."""
FROM_CLUSTER = "topics: {orders: {from: cluster}}"


class Cluster:
    """`orders` has four segments of ten records; the metadata log says what the test says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source = LogDirectory(folder / "source")
        orders = self.source.partition("orders-0", topic_id_text("orders"))
        for i in range(4):
            append_segment(orders, [(b"k%d" % (n % 3), b"v") for n in range(10)], 1_700_000_001_000 + 1000 * i)
        self.source.high_watermarks(orders_0=40)
        self.metadata = MetadataLog(self.source.path)
        self.lake = Lake(folder / "lake")
        self.lake.turn(self.source.path, topics=("orders",))

    def read_metadata(self) -> JobReport:
        source = (str(self.source.path),)
        config = ClusterConfig(str(self.lake.path), "cluster", AS_OF_MS, source, only_metadata=True)
        return launch.run(config)

    def policies(self, text: str) -> str:
        path = self.folder / "policies.yaml"
        path.write_text(text)
        return str(path)

    def retained(self, text: str = FROM_CLUSTER, as_of_ms: int = NEWEST + 500) -> RetentionOutline:
        """The plan of retention: at NEWEST + 500 the segments are 3.5, 2.5, 1.5 and 0.5 seconds old."""
        config = RetentionConfig(str(self.lake.path), "retain", as_of_ms, read_policies(self.policies(text)))
        return launch.run(config).plan


def due(plan: RetentionOutline) -> list[int]:
    return [segment.base_offset for log in plan.logs for segment in log.segments]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Cluster(tmp_path_factory.mktemp("cluster")).folder


@pytest.fixture
def cluster(built: Path, tmp_path: Path) -> Cluster:
    folder = Path(shutil.copytree(built, tmp_path / "cluster"))
    made = Cluster.__new__(Cluster)
    made.folder, made.source, made.lake = folder, LogDirectory(folder / "source"), Lake(folder / "lake")
    shutil.rmtree(made.source.path / "__cluster_metadata-0")
    made.metadata = MetadataLog(made.source.path)
    return made


def test_retention_follows_the_settings_of_the_cluster(cluster: Cluster) -> None:
    cluster.metadata.say(
        created("orders"), setting("orders", "cleanup.policy", "delete"), setting("orders", "retention.ms", "2000")
    )
    cluster.read_metadata()
    assert due(cluster.retained()) == [0, 10]
    config = RetentionConfig(
        str(cluster.lake.path), "retain", NEWEST + 500, read_policies(cluster.policies(FROM_CLUSTER)), apply=True
    )
    launch.run(config)
    assert spans(cluster.lake, "orders") == [(20, 30), (30, 40)]


def test_a_setting_that_was_said_after_the_clock_of_the_run_does_not_count(cluster: Cluster) -> None:
    cluster.metadata.say(created("orders"), setting("orders", "cleanup.policy", "delete"))
    cluster.metadata.say(setting("orders", "retention.ms", "2000"), time_ms=NEWEST + 100)
    cluster.metadata.say(setting("orders", "retention.ms", "0"), time_ms=NEWEST + 1000)
    cluster.read_metadata()
    assert due(cluster.retained(as_of_ms=NEWEST + 99)) == []
    assert due(cluster.retained(as_of_ms=NEWEST + 500)) == [0, 10]
    assert due(cluster.retained(as_of_ms=NEWEST + 1001)) == [0, 10, 20, 30]


def test_a_setting_that_was_removed_does_not_count(cluster: Cluster) -> None:
    cluster.metadata.say(
        created("orders"), setting("orders", "cleanup.policy", "delete"), setting("orders", "retention.ms", "2000")
    )
    cluster.metadata.say(setting("orders", "retention.ms", None), time_ms=2000)
    cluster.read_metadata()
    assert due(cluster.retained()) == []


def test_without_settings_of_the_topic_nothing_is_due_after_any_time(cluster: Cluster) -> None:
    cluster.metadata.say(created("orders"), setting("orders", "cleanup.policy", "delete"))
    cluster.read_metadata()
    plan = cluster.retained(as_of_ms=NEWEST + 50 * 365 * 86_400_000)
    assert (due(plan), plan.in_doubt) == ([], ())


def test_a_line_of_the_policies_wins_over_the_cluster(cluster: Cluster) -> None:
    cluster.metadata.say(
        created("orders"), setting("orders", "cleanup.policy", "delete"), setting("orders", "retention.ms", "0")
    )
    cluster.read_metadata()
    assert due(cluster.retained("topics: {orders: {from: cluster, retention.ms: 2s}}")) == [0, 10]
    assert due(cluster.retained("topics: {orders: {from: cluster, cleanup.policy: compact}}")) == []


def test_a_topic_of_which_the_cluster_was_not_read_loses_nothing(cluster: Cluster) -> None:
    plan = cluster.retained("topics: {orders: {from: cluster, cleanup.policy: compact}}")
    assert due(plan) == []
    assert [(log.topic_partition, "does not name the topic" in log.why) for log in plan.in_doubt] == [
        ("orders-0", True)
    ]


def test_after_a_damaged_record_nothing_is_removed_until_a_copy_is_whole(cluster: Cluster) -> None:
    cluster.metadata.say(
        created("orders"),
        setting("orders", "cleanup.policy", "compact,delete"),
        setting("orders", "retention.ms", "2000"),
        setting("orders", "retention.ms", "604800000"),
        setting("orders", "segment.bytes", "1000"),
    )
    cluster.metadata.damage(3)
    cluster.read_metadata()
    errors = [row["file"] for row in cluster.lake.rows("findings") if row["severity"] == "error"]
    assert errors == [str(cluster.metadata.segment)]
    assert {row["standing"] for row in cluster.lake.rows("cluster_topic_configs")} == {"doubtful"}
    plan = cluster.retained()
    assert due(plan) == []
    assert "lost" in plan.in_doubt[0].why
    config = CompactionConfig(
        str(cluster.lake.path), "compact", NEWEST + 500, read_policies(cluster.policies(FROM_CLUSTER))
    )
    compaction = launch.run(config).plan
    assert compaction.logs == ()
    assert "in doubt" in compaction.passed[0].reason
    cluster.metadata.say()
    cluster.read_metadata()
    assert {row["standing"] for row in cluster.lake.rows("cluster_topic_configs")} == {"tentative"}
    assert due(cluster.retained()) == []
    assert cluster.retained().in_doubt == ()


def standings(cluster: Cluster) -> dict[tuple[str, str], str]:
    """By name and value of each setting that has no end."""
    rows = cluster.lake.rows("cluster_topic_configs")
    return {(row["name"], row["value"]): row["standing"] for row in rows if row["valid_to_offset"] is None}


@pytest.mark.parametrize("damage", ["record", "segment"])
def test_rows_that_wait_because_of_damage_are_doubtful_until_a_copy_is_whole(cluster: Cluster, damage: str) -> None:
    cluster.metadata.say(
        created("orders"), setting("orders", "cleanup.policy", "delete"), setting("orders", "retention.ms", "2000")
    )
    cluster.read_metadata()
    assert due(cluster.retained()) == [0, 10]
    unreadable = cluster.metadata.path / f"{3:020d}.log"
    if damage == "record":
        cluster.metadata.damage(2)
    else:
        unreadable.symlink_to(cluster.folder / "nothing")
    cluster.read_metadata()
    values = ("cleanup.policy", "delete"), ("retention.ms", "2000")
    assert standings(cluster) == dict.fromkeys(values, "doubtful")
    plan = cluster.retained()
    assert (due(plan), len(plan.in_doubt)) == ([], 1)
    assert not cluster.read_metadata().plan.rows.get("cluster_topic_configs")
    unreadable.unlink(missing_ok=True)
    cluster.metadata.say()
    cluster.read_metadata()
    assert standings(cluster) == dict.fromkeys(values, "tentative")
    assert due(cluster.retained()) == [0, 10]


def test_an_older_copy_does_not_bring_back_a_setting_that_was_removed(cluster: Cluster) -> None:
    nothing = None, b"\1\x14\0\0"
    cluster.metadata.say(
        created("orders"), setting("orders", "cleanup.policy", "delete"), setting("orders", "retention.ms", "2000")
    )
    cluster.metadata.say(nothing)
    older = cluster.metadata.segment.read_bytes()
    cluster.metadata.say(nothing, setting("orders", "retention.ms", None))
    cluster.read_metadata()
    before = standings(cluster)
    assert before == {("cleanup.policy", "delete"): "tentative"}
    cluster.metadata.segment.write_bytes(older)
    (why,) = cluster.read_metadata().plan.waits.values()
    assert why == "the tables have offset 5, and the source ends at 4"
    assert standings(cluster) == before
    assert due(cluster.retained()) == []


def test_a_log_that_ends_before_its_newest_snapshot_goes_on_with_it(cluster: Cluster) -> None:
    cluster.metadata.say(
        created("orders"), setting("orders", "cleanup.policy", "delete"), setting("orders", "retention.ms", "2000")
    )
    said = created("orders"), setting("orders", "cleanup.policy", "delete"), setting("orders", "retention.ms", "-1")
    cluster.metadata.snapshot(6, *said, time_ms=NEWEST)
    cluster.read_metadata()
    rows = cluster.lake.rows("cluster_topic_configs")
    found = {(row["value"], row["valid_from_offset"], row["valid_to_offset"], row["standing"]) for row in rows}
    assert found == {
        ("delete", 1, 5, "doubtful"),
        ("2000", 2, 5, "doubtful"),
        ("delete", 5, None, "committed"),
        ("-1", 5, None, "committed"),
    }
    plan = cluster.retained()
    assert (due(plan), plan.in_doubt) == ([], ())
    before = cluster.retained(as_of_ms=NEWEST - 1)
    assert (due(before), len(before.in_doubt)) == ([], 1)


def test_a_log_that_ends_before_its_damaged_snapshot_is_doubtful(cluster: Cluster) -> None:
    cluster.metadata.say(
        created("orders"), setting("orders", "cleanup.policy", "delete"), setting("orders", "retention.ms", "2000")
    )
    cluster.metadata.snapshot(6, created("orders"), setting("orders", "retention.ms", "-1"))
    (snapshot,) = cluster.metadata.path.glob("*.checkpoint")
    snapshot.write_bytes(snapshot.read_bytes()[:-1])
    cluster.read_metadata()
    assert set(standings(cluster).values()) == {"doubtful"}
    plan = cluster.retained()
    assert (due(plan), len(plan.in_doubt)) == ([], 1)


def test_a_snapshot_before_a_damaged_one_is_doubtful_if_the_log_ends_before_both(cluster: Cluster) -> None:
    old = created("orders"), setting("orders", "cleanup.policy", "delete"), setting("orders", "retention.ms", "2000")
    cluster.metadata.say(created("orders"))
    cluster.metadata.snapshot(6, *old)
    cluster.metadata.snapshot(9, *old[:2], setting("orders", "retention.ms", "-1"))
    newest = max(cluster.metadata.path.glob("*.checkpoint"))
    newest.write_bytes(newest.read_bytes()[:-1])
    cluster.read_metadata()
    assert set(standings(cluster).values()) == {"doubtful"}
    plan = cluster.retained()
    assert (due(plan), len(plan.in_doubt)) == ([], 1)


def test_settings_of_a_topic_that_was_made_again_do_not_count_for_the_log_before(cluster: Cluster) -> None:
    cluster.metadata.say(created("orders"), removed("orders"), created("orders", 1))
    cluster.metadata.say(setting("orders", "cleanup.policy", "delete"), setting("orders", "retention.ms", "0"))
    cluster.read_metadata()
    plan = cluster.retained()
    assert due(plan) == []
    assert "recreated" in plan.in_doubt[0].why


def test_a_topic_has_no_settings_of_an_earlier_one_if_the_clock_of_a_controller_was_late(cluster: Cluster) -> None:
    cluster.metadata.say(created("orders", 1), setting("orders", "cleanup.policy", "delete"))
    cluster.metadata.say(setting("orders", "retention.ms", "0"))
    cluster.metadata.say(removed("orders", 1), time_ms=NEWEST + 2000)
    cluster.metadata.say(created("orders"), setting("orders", "min.compaction.lag.ms", "9"), time_ms=NEWEST - 1000)
    cluster.read_metadata()
    *_, latest = settings_at(str(cluster.lake.path), NEWEST + 500)
    assert (latest.topic_id, list(latest.settings)) == (topic_id_text("orders"), ["min.compaction.lag.ms"])
    assert due(cluster.retained()) == []


def test_compaction_follows_the_settings_of_the_cluster(cluster: Cluster) -> None:
    cluster.metadata.say(created("orders"), setting("orders", "cleanup.policy", "compact"))
    cluster.metadata.say(setting("orders", "min.compaction.lag.ms", "2000"))
    cluster.read_metadata()
    path = cluster.policies(FROM_CLUSTER)
    config = CompactionConfig(str(cluster.lake.path), "compact", NEWEST + 500, read_policies(path))
    (log,) = launch.run(config).plan.logs
    assert log.end_offset == 20


def test_the_command_shows_each_setting_and_where_it_is_from(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.metadata.say(created("orders"), setting("orders", "cleanup.policy", "delete"))
    cluster.metadata.say(setting("orders", "segment.bytes", "5000"))
    cluster.read_metadata()
    path = cluster.policies("topics:\n  orders:\n    from: cluster\n    retention.bytes: 1KiB\n")
    for place in (["--lake", str(cluster.lake.path)], ["--source", str(cluster.source.path)]):
        assert main(["config", "check", path, *place]) == 0
        shown = capsys.readouterr().out.partition("topic orders, by the policy orders\n")[2].splitlines()
        assert "  cleanup.policy = delete  (cluster, offset 1 of its metadata, tentative)" in shown
        assert "  segment.bytes = 5000  (cluster, offset 2 of its metadata, tentative)" in shown
        assert "  retention.bytes = 1 KiB  (line 4)" in shown
        assert "  retention.ms = unlimited  (default)" in shown
        assert len(shown) == 5  # and that settings are from the cluster
    assert main(["config", "check", path, "--lake", str(cluster.lake.path), "--as-of", "500ms"]) == 1
    assert "warning: orders: nothing is taken from the cluster" in capsys.readouterr().err


def test_the_command_notes_a_pattern_that_matches_no_topic_of_the_metadata(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.metadata.say(created("orders"))
    path = cluster.policies("topics:\n  orders:\n    from: cluster\n  ordres:\n    from: cluster\n")
    assert main(["config", "check", path, "--source", str(cluster.source.path)]) == 0
    assert f"note: {path}: the pattern 'ordres' matches no topic" in capsys.readouterr().err


def test_the_command_says_that_a_record_after_one_of_a_later_time_is_left_out(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each controller has a clock. The state at a time ends at the first later record."""
    cluster.metadata.say(created("orders"))
    cluster.metadata.say(setting("orders", "segment.bytes", "5000"), time_ms=3000)
    cluster.metadata.say(setting("orders", "cleanup.policy", "compact"), time_ms=2000)
    path = cluster.policies("topics:\n  orders:\n    from: cluster\n")
    source = str(cluster.source.path)
    assert main(["config", "check", path, "--source", source, "--as-of", "2500ms"]) == 1
    assert "nothing is taken from the cluster: Its record at offset 2" in capsys.readouterr().err
    assert main(["config", "check", path, "--source", source, "--as-of", "3000ms"]) == 0


def test_the_command_prints_the_findings_that_put_the_source_in_doubt(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.metadata.say(created("orders"), setting("orders", "segment.bytes", "5000"))
    cluster.metadata.damage(1)
    path = cluster.policies("topics:\n  orders:\n    from: cluster\n")
    assert main(["config", "check", path, "--source", str(cluster.source.path)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("info torn-tail: ") for line in lines), lines
    assert any(line.startswith("warning: orders: nothing is taken from the cluster") for line in lines), lines


def test_each_run_reads_the_metadata_if_a_policy_needs_it(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begun(text: str) -> list[str]:
        jobs = Jobs()
        request = RunRequest(sources=(str(cluster.source.path),), topics=("orders",), policies=cluster.policies(text))
        run = Run(
            "run",
            str(cluster.lake.path),
            AS_OF_MS,
            request,
            request.policies_of(str(cluster.lake.path)),
            jobs,
        )
        done = run_steps(INTAKE, run)
        assert done.error is None, done.error
        return jobs.begun

    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    cluster.metadata.say(created("orders"), setting("orders", "cleanup.policy", "delete"))
    assert "cluster" not in begun("topics: {orders: {cleanup.policy: delete}}")
    assert cluster.lake.rows("cluster_topic_configs") == []
    assert begun(FROM_CLUSTER)[:2] == ["ingest", "cluster"]
    assert [row["value"] for row in cluster.lake.rows("cluster_topic_configs")] == ["delete"]
    assert cluster.lake.rows("cluster_groups") == []
    request = RunRequest(
        sources=(str(cluster.source.path),), topics=("orders",), policies=cluster.policies(FROM_CLUSTER)
    )
    assert (
        outcome_without_work(str(cluster.lake.path), request, request.policies_of(str(cluster.lake.path)), AS_OF_MS)
        is not None
    )
    cluster.metadata.say(setting("orders", "retention.ms", "1"))
    assert (
        outcome_without_work(str(cluster.lake.path), request, request.policies_of(str(cluster.lake.path)), AS_OF_MS)
        is None
    )


def test_a_run_over_several_sources_takes_the_metadata_that_reaches_furthest(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    cluster.metadata.say(created("orders"), setting("orders", "cleanup.policy", "delete"))
    older = LogDirectory(tmp_path / "older")
    shutil.copytree(cluster.metadata.path, older.path / "__cluster_metadata-0")
    cluster.metadata.say(setting("orders", "retention.ms", "1"))
    intakes = tuple(Intake((str(path),), topics=("orders",)) for path in (older.path, cluster.source.path))
    monkeypatch.setattr(RunRequest, "intakes", lambda request, lake: intakes)
    jobs = Jobs()
    request = RunRequest(policies=cluster.policies(FROM_CLUSTER))
    run = Run(
        "run",
        str(cluster.lake.path),
        AS_OF_MS,
        request,
        request.policies_of(str(cluster.lake.path)),
        jobs,
    )
    done = run_steps(INTAKE, run)
    assert done.error is None, done.error
    assert (jobs.begun[:3], jobs.begun.count("cluster")) == (["ingest", "cluster", "ingest"], 1)
    assert set(standings(cluster)) == {("cleanup.policy", "delete"), ("retention.ms", "1")}
