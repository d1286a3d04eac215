"""`loglake run` and `watch` write the tables of the cluster: the step, its checks, and nothing where nothing is new."""

from __future__ import annotations

import re
import shlex
import shutil
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from logcore.cli.main import main
from logcore.logs.model.findings import Severity
from pipelines.command import watch as watching
from pipelines.command.status import status
from pipelines.command.watch import Watch
from pipelines.run.chains import INTAKE
from pipelines.run.direct import FinishedSteps, run_steps
from pipelines.run.look import outcome_without_work
from pipelines.run.run_request import RunRequest
from pipelines.run.steps import Run
from spark_jobs import launch
from spark_jobs.cluster import cluster_job
from spark_jobs.contracts import ClusterConfig
from spark_jobs.lake.view.alarms import problems_of
from spark_jobs.lake.view.lake_state import read_state
from spark_jobs.policies.policies_file import NO_POLICIES
from tests import handmade
from tests.in_process import InProcessExecutor
from tests.jobs.test_cluster import Cluster, commit, text
from tests.jobs.test_decode_in_a_run import Jobs, answer_of
from tests.spark.cycle import AS_OF_MS, Lake

NOW_MS = 1_700_000_000_000
BEYOND, FOLLOWS = "no_commit_beyond_log_end", "cluster_follows_sources"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    return Cluster(tmp_path)


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list that gets an entry whenever the job reads the sources."""
    made: list[Any] = []
    read = cluster_job._read
    monkeypatch.setattr(cluster_job, "_read", lambda config: made.append(config) or read(config))
    return made


def request_of(cluster: Cluster, **more: Any) -> RunRequest:
    return RunRequest(sources=(str(cluster.source.path),), **more)


def run(cluster: Cluster, **more: Any) -> tuple[FinishedSteps, list[str]]:
    jobs, request = Jobs(), request_of(cluster, **more)
    done = run_steps(
        INTAKE,
        Run(
            "run",
            str(cluster.lake.path),
            AS_OF_MS,
            request,
            request.policies_of(str(cluster.lake.path)),
            jobs,
        ),
    )
    assert done.error is None, done.error
    return done, jobs.begun


def test_a_run_writes_the_tables_and_a_run_without_news_reads_no_internal_topic(
    cluster: Cluster, readings: list[Any]
) -> None:
    cluster.write(commit("a", 4))
    cluster.stable()
    listener, jobs = run(cluster)
    assert jobs == ["ingest", "validate", "publish", "cluster", "expectations"]
    assert cluster.commits() == [("a", 4)]
    assert answer_of(listener, FOLLOWS).passed
    assert answer_of(listener, BEYOND).passed
    assert len(readings) == 1
    before = cluster.lake.versions()
    assert outcome_without_work(str(cluster.lake.path), request_of(cluster), NO_POLICIES, AS_OF_MS) is not None
    run(cluster)
    assert (len(readings), cluster.lake.versions()) == (1, before)
    cluster.write(commit("a", 5))
    cluster.stable()
    assert outcome_without_work(str(cluster.lake.path), request_of(cluster), NO_POLICIES, AS_OF_MS) is None
    run(cluster)
    assert cluster.commits() == [("a", 4), ("a", 5)]


def test_a_run_says_which_partitions_of_consumer_offsets_the_sources_have(cluster: Cluster) -> None:
    cluster.write(commit("a", 4))
    cluster.stable()
    listener, _ = run(cluster)
    assert answer_of(listener, FOLLOWS).notes == ()
    cluster.groups.path.rename(cluster.groups.path.with_name("__consumer_offsets-7"))
    shutil.rmtree(cluster.lake.path)
    cluster.source.high_watermarks(orders_0=10, __consumer_offsets_7=10)
    listener, _ = run(cluster)
    assert answer_of(listener, FOLLOWS).passed
    assert answer_of(listener, FOLLOWS).notes == (
        "of __consumer_offsets the sources have only 7 of at least 8 partitions; the tables have no groups of the "
        "others",
    )


def test_growth_of_a_topic_alone_changes_the_lag_in_the_same_run(cluster: Cluster) -> None:
    cluster.write(commit("a", 4))
    cluster.stable()
    run(cluster)
    cluster.orders.append(5)
    cluster.stable()
    run(cluster)
    assert cluster.offsets() == {"a": (4, 15, 11)}


def test_what_a_run_remembers_does_not_count_for_changed_tables_or_without_its_file(
    cluster: Cluster, readings: list[Any], tmp_path: Path
) -> None:
    cluster.write(commit("a", 4))
    cluster.stable()
    run(cluster)
    shutil.rmtree(cluster.lake.path / "tables" / "cluster_groups")
    run(cluster)
    assert [row["group"] for row in cluster.lake.rows("cluster_groups")] == ["a"]
    (kept,) = (tmp_path / "home" / "cluster_readings").iterdir()
    for content in ("{", "[]", '{"basis": {"lake": 1}, "found": 2}'):
        kept.write_text(content)
        count = len(readings)
        run(cluster)
        assert len(readings) == count + 1


def test_a_lake_without_internal_topics_has_neither_job_nor_tables_nor_checks(tmp_path: Path, cluster: Cluster) -> None:
    shutil.rmtree(cluster.groups.path)
    cluster.lake = Lake(tmp_path / "other")
    listener, jobs = run(cluster)
    assert "cluster" not in jobs
    assert not [each for each in listener.answers if each.name in (FOLLOWS, BEYOND)]
    assert not list((tmp_path / "other" / "tables").glob("cluster_*"))


@pytest.mark.parametrize("chosen", [{"topics": ("orders",)}, {"partitions": (0,)}, {"logs": ("orders-0",)}])
def test_a_run_for_chosen_logs_reads_no_internal_topic(cluster: Cluster, chosen: dict[str, Any]) -> None:
    cluster.write(commit("a", 4))
    cluster.stable()
    assert "cluster" not in run(cluster, **chosen)[1]


def test_the_policy_off_leaves_the_tables_to_the_command(cluster: Cluster, tmp_path: Path) -> None:
    policies = tmp_path / "policies.yaml"
    policies.write_text("lake: {cluster: off}\n")
    assert "cluster" not in run(cluster, policies=str(policies))[1]
    policies.write_text("lake: {cluster: follow}\n")
    assert "cluster" in run(cluster, policies=str(policies))[1]


def test_a_commit_beyond_the_end_of_its_log_stays_a_warning_of_the_check_and_of_status(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.write(commit("a", 11))
    cluster.stable()
    for _ in range(2):
        answer = answer_of(run(cluster)[0], BEYOND)
        assert not answer.passed
        assert answer.severity is Severity.WARNING
        assert answer.description == "Group a has committed offset 11 of orders-0, whose log ends at 10"
        assert status([str(cluster.lake.path)], AS_OF_MS) == 1
        shown = capsys.readouterr().out
        assert f"failed checks: {BEYOND}\n" in shown
        assert shown.count(answer.description) == 1
    cluster.orders.append(1)
    cluster.stable()
    assert answer_of(run(cluster)[0], BEYOND).passed
    assert status([str(cluster.lake.path)], AS_OF_MS) == 0


def test_rows_of_a_log_with_a_segment_that_cannot_be_read_stay_and_the_check_says_so(cluster: Cluster) -> None:
    cluster.write(commit("a", 1))
    cluster.stable()
    run(cluster)
    (segment,) = cluster.groups.segments()
    segment.rename(segment.with_suffix(".kept"))
    segment.symlink_to(segment)  # not even root can read it
    cluster.orders.append(1)
    cluster.source.high_watermarks(orders_0=cluster.orders.next_offset, __consumer_offsets_0=1)
    answer = answer_of(run(cluster)[0], FOLLOWS)
    assert not answer.passed
    assert "__consumer_offsets-0 waits: 1 of its segments cannot be read" in answer.description
    assert cluster.offsets()["a"][0] == 1
    assert cluster.commits() == [("a", 1)]


class Time:
    """A clock."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS


def test_a_watch_writes_the_tables_once_a_minute_and_catches_up_without_further_growth(
    cluster: Cluster, readings: list[Any]
) -> None:
    clock = Time()
    complaints: list[str] = []
    path = str(cluster.lake.path)
    watch = Watch(path, request_of(cluster), lambda: clock.now_ms, lambda _: None, complaints.append)
    cluster.write(commit("a", 1))
    cluster.stable()
    assert watch.look() is not None
    assert cluster.commits() == [("a", 1)]
    cluster.write(commit("a", 2))
    cluster.stable()
    clock.now_ms += watching.MINUTE_MS - 1
    assert watch.look() is not None
    assert watch.look() is None
    assert (cluster.commits(), len(readings)) == ([("a", 1)], 1)
    clock.now_ms += 60 * watching.MINUTE_MS  # also if the job was slow
    assert watch.look() is not None
    assert (cluster.commits(), len(readings)) == ([("a", 1), ("a", 2)], 2)
    assert watch.look() is None
    assert not complaints


def transactional(name: str, producer_id: int) -> tuple[bytes, bytes]:
    """By TransactionLogKey 0 and TransactionLogValue 0, without partitions."""
    key = struct.pack(">h", 0) + text(name)
    return key, struct.pack(">hqhibiqq", 0, producer_id, 3, 60_000, 1, -1, NOW_MS, NOW_MS)


def tagged(name: str, producer_id: int, **ids: int) -> tuple[bytes, bytes]:
    """By TransactionLogValue 1, without partitions. A broker of 4.x also names the current id as the previous one."""
    key = struct.pack(">h", 0) + text(name)
    tags = [(0, ids.get("previous", producer_id)), *((1, each) for tag, each in ids.items() if tag == "following")]
    fields = b"".join(struct.pack(">BBq", tag, 8, each) for tag, each in tags)
    value = struct.pack(">hqhibBqqB", 1, producer_id, 3, 60_000, 1, 0, NOW_MS, NOW_MS, len(tags)) + fields
    return key, value


def ongoing(name: str, producer_id: int, timeout_ms: int, topic: str) -> tuple[bytes, bytes]:
    """By TransactionLogValue 0: an ongoing transaction with partition 0 of a topic."""
    partitions = struct.pack(">i", 1) + text(topic) + struct.pack(">ii", 1, 0)
    value = struct.pack(">hqhib", 0, producer_id, 3, timeout_ms, 1) + partitions + struct.pack(">qq", NOW_MS, NOW_MS)
    return struct.pack(">h", 0) + text(name), value


def open_since(cluster: Cluster, *states: tuple[bytes, bytes | None]) -> str:
    """Publish an open transaction of producer id 7 and records of `__transaction_state`; what the lake says of it."""
    log = cluster.source.partition("__transaction_state-0", "DDDDDDDDDDDDDDDDDDDDDg")
    log.roll()
    log.write(handmade.simple_batch(0, list(states), base_timestamp=NOW_MS))
    cluster.orders.append(5, producer_id=7, producer_epoch=2, base_sequence=0, attributes=0x10)
    cluster.source.high_watermarks(orders_0=15, __consumer_offsets_0=0, __transaction_state_0=len(states))
    run(cluster)
    return described(cluster)


def described(cluster: Cluster) -> str:
    (oldest,) = next(
        log for log in read_state(str(cluster.lake.path)).logs if log.row.topic == "orders"
    ).open_transactions
    return oldest.described(NOW_MS + 17 * 60_000)


NAMED = 'producer 7 epoch 2 (transactional id "billing") from offset 10 on, open for 17 min'


def test_the_alarm_of_a_hanging_transaction_names_the_transactional_id(cluster: Cluster) -> None:
    assert open_since(cluster, transactional("other", 8), transactional("billing", 7)) == NAMED
    answer = answer_of(run(cluster)[0], "no_hanging_transaction")
    assert 'producer 7 epoch 2 (transactional id "billing") from offset 10 on' in answer.description
    state = read_state(str(cluster.lake.path))
    (problem,) = problems_of(state, NOW_MS + 17 * 60_000, None)
    assert (problem.kind, problem.what) == ("hanging-transaction", NAMED)


@pytest.mark.parametrize(
    "states",
    [
        pytest.param([tagged("billing", 9, previous=7)], id="the previous id of the current state"),
        pytest.param([tagged("billing", 6, following=7)], id="the id that follows when the transaction has ended"),
        pytest.param([transactional("billing", 7), transactional("billing", 9)], id="an earlier state"),
        pytest.param([tagged("billing", 8, previous=7), tagged("billing", 9, previous=8)], id="two ids ago"),
        pytest.param(
            [transactional("billing", 7), (transactional("billing", 7)[0], None), transactional("billing", 9)],
            id="before the id expired",
        ),
    ],
)
def test_the_alarm_names_a_transactional_id_that_has_another_producer_id_now(
    cluster: Cluster, states: list[tuple[bytes, bytes | None]]
) -> None:
    assert open_since(cluster, tagged("other", 8), *states) == NAMED


@pytest.mark.parametrize(
    ("state", "allowed"),
    [
        pytest.param(ongoing("billing", 7, 60, "orders"), 15, id="a short timeout"),
        pytest.param(ongoing("billing", 7, 3_600_000, "orders"), 60, id="a timeout of an hour"),
        pytest.param(ongoing("billing", 7, 3_600_000, "others"), 15, id="the coordinator does not know the partition"),
        pytest.param(transactional("billing", 7), 15, id="no partition"),
        pytest.param(ongoing("billing", 8, 3_600_000, "orders"), 15, id="another producer id"),
    ],
)
def test_a_transaction_hangs_only_after_the_timeout_that_its_coordinator_keeps(
    cluster: Cluster, state: tuple[bytes, bytes], allowed: int
) -> None:
    open_since(cluster, state)
    (oldest,) = next(
        log for log in read_state(str(cluster.lake.path)).logs if log.row.topic == "orders"
    ).open_transactions
    assert [oldest.hangs(NOW_MS + allowed * 60_000 + more) for more in (0, 1)] == [False, True]


def test_other_producer_ids_are_those_that_are_not_the_current_one(cluster: Cluster) -> None:
    states = (
        tagged("a", 9, previous=7),
        tagged("a", 12, previous=9, following=13),
        tagged("b", 8),
        tagged("c", 6, previous=-1),
    )
    open_since(cluster, *states)
    rows = cluster.lake.rows("cluster_transactional_ids")
    assert {row["transactional_id"]: (row["producer_id"], row["other_producer_ids"]) for row in rows} == {
        "a": (12, [7, 9, 13]),
        "b": (8, []),
        "c": (6, []),
    }


def test_a_table_of_an_earlier_version_names_current_producer_ids_and_gets_the_others(cluster: Cluster) -> None:
    assert open_since(cluster, transactional("billing", 7)) == NAMED
    place = cluster.lake.path / "tables" / "cluster_transactional_ids"
    rows = DeltaTable(str(place)).to_pyarrow_table().drop_columns(["other_producer_ids"])
    shutil.rmtree(place)
    write_deltalake(str(place), rows)
    assert described(cluster) == NAMED
    log = cluster.source.partition("__transaction_state-0", "DDDDDDDDDDDDDDDDDDDDDg")
    log.write(handmade.simple_batch(1, [transactional("billing", 9)], base_timestamp=NOW_MS))
    cluster.source.high_watermarks(orders_0=15, __consumer_offsets_0=0, __transaction_state_0=2)
    run(cluster)
    assert described(cluster) == NAMED
    (row,) = cluster.lake.rows("cluster_transactional_ids")
    assert (row["producer_id"], row["other_producer_ids"]) == (9, [7])


def test_a_reading_of_the_metadata_alone_does_not_replace_a_whole_one(cluster: Cluster) -> None:
    cluster.write(commit("a", 4))
    cluster.stable()
    config = ClusterConfig(str(cluster.lake.path), "run", AS_OF_MS, (str(cluster.source.path),))
    launch.run(replace(config, only_metadata=True))
    launch.run(replace(config, only_after_intake=True))
    assert cluster.commits() == [("a", 4)]


@pytest.mark.parametrize("harm", ["gone", "damaged"])
@pytest.mark.parametrize("name", ["cluster_group_offsets", "cluster_groups", "cluster_offset_commits"])
def test_the_command_that_verify_names_brings_a_table_of_the_cluster_back(
    cluster: Cluster, name: str, harm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.write(commit("a", 4))
    cluster.stable()
    run(cluster)
    rows, table = cluster.lake.rows(name), cluster.lake.path / "tables" / name
    if harm == "gone":
        shutil.rmtree(table)
    else:
        max((table / "_delta_log").glob("*.json")).write_text("{")
    assert main(["verify", str(cluster.lake.path)]) == 2
    command = re.search(r"`loglake (repair .+? --apply) && loglake run ", capsys.readouterr().out)
    assert command is not None
    assert main(shlex.split(command[1])) == 0
    run(cluster)
    assert cluster.lake.rows(name) == rows
    assert main(["verify", str(cluster.lake.path)]) == 0
