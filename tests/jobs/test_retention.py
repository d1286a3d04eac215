"""Retention of the archive: what leaves, what stays, and what every table says of it afterwards."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from logcore.cli.main import main
from spark_jobs import launch
from spark_jobs.contracts import JobReport, ReplaceConfig, RetentionConfig, TidyArchiveConfig, ValidateConfig
from spark_jobs.errors import ConcurrentChange
from spark_jobs.lake.delta import commits
from spark_jobs.policies.policies_file import read_policies
from spark_jobs.retention import retention_job as retention
from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.in_process import without_spark
from tests.spark.archived import append_segment, files, ledger, spans, tables
from tests.spark.cycle import Lake

NEWEST = 1_700_000_004_000
THIRD_TOPIC_ID = "DDDDDDDDDDDDDDDDDDDDDA"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """orders: four segments of ten, a second apart, published up to 35. payments: the same age, no policy.
    gappy: cleaned by its broker."""
    folder = tmp_path_factory.mktemp("retention")
    source = LogDirectory(folder / "source")
    orders = source.partition("orders-0")
    for i in range(4):
        append_segment(orders, [(b"k%d" % n, b"v") for n in range(10)], 1_700_000_001_000 + 1000 * i)
    payments = source.partition("payments-0", OTHER_TOPIC_ID)
    append_segment(payments, [(b"k", b"v")] * 10, 1_600_000_000_000)
    append_segment(payments, [(b"k", b"v")] * 10, 1_600_000_000_000)
    gappy = source.partition("gappy-0", THIRD_TOPIC_ID)
    gappy.roll(0)
    kept = [handmade.record(2, b"a", b"1"), handmade.record(5, b"b", b"2")]
    gappy.write(handmade.batch(kept, last_offset_delta=9, base_timestamp=1_700_000_001_000))
    gappy.next_offset = 10
    append_segment(gappy, [(b"a", b"3")] * 5, 1_700_000_003_000)
    source.checkpoint("cleaner", gappy_0=10)
    source.high_watermarks(orders_0=35, payments_0=20, gappy_0=15)
    lake = Lake(folder / "lake")
    lake.turn(source.path)
    assert set(lake.published("orders")) == set(range(35))
    return lake


@pytest.fixture
def lake(built: Lake, tmp_path: Path) -> Lake:
    return Lake(Path(shutil.copytree(built.path, tmp_path / "lake")))


def retain(lake: Lake, policies: str, *, apply: bool = True, as_of_ms: int = NEWEST + 500) -> JobReport:
    path = lake.path.parent / "policies.yaml"
    path.write_text(policies)
    config = RetentionConfig(str(lake.path), "retain", as_of_ms, read_policies(str(path)), apply=apply)
    return launch.run(config)


# At NEWEST + 500 the segments are 3.5, 2.5, 1.5 and 0.5 seconds old.
OLD = 'topics: {orders: {cleanup.policy: delete, retention.ms: "2000"}}'
SAID = ("start_offset", "end_offset", "state", "records", "gaps", "markers", "archived", "published", "evidence")
ALL = 'topics: {orders: {cleanup.policy: delete, retention.ms: "0"}}'


def test_a_dry_run_prints_what_is_due_and_changes_no_table(lake):
    before = files(lake.path)
    report = retain(lake, OLD, apply=False)
    [log] = report.plan.logs
    assert [(s.base_offset, s.rule) for s in log.segments] == [(0, "retention.ms"), (10, "retention.ms")]
    assert log.log_start_offset == 20
    expected = {"applied": False, "due_segments": 2, "due_bytes": log.bytes, "expired_rows": 0}
    assert report.metrics == expected
    assert report.changed == ()
    after = files(lake.path)
    assert {name: after[name] for name in after if name != "lease.json"} == {
        name: before[name] for name in before if name != "lease.json"
    }


def test_what_is_due_leaves_and_every_table_says_so(lake):
    records, archive = lake.published("orders"), files(lake.path / "archive")
    report = retain(lake, OLD)
    assert not report.used_executor
    assert spans(lake, "orders") == [(20, 30), (30, 40)]
    assert spans(lake, "payments") == [(0, 10), (10, 20)]
    assert ledger(lake, "orders") == [
        (0, 20, "present", 20, 0, "retained-away"),
        (20, 35, "present", 15, 0, "held"),
        (35, 40, "open", 5, 0, "held"),
    ]
    actions = sorted(lake.rows("log_actions"), key=lambda row: row["action"])
    assert [(a["action"], a["rule"], a["records_before"], a["records_after"]) for a in actions] == [
        ("keep", "retention", None, None),
        *[("retention", "retention.ms", 10, 0)] * 2,
    ]
    assert all("retention.ms is 2000" in action["reason"] for action in actions)
    [kept] = [row for row in lake.rows("segments") if row["segment_id"] == actions[0]["segment_id"]]
    assert (kept["base_offset"], kept["retired_ms"]) == (20, None)
    retired = [row for row in lake.rows("segments") if row["retired_ms"] is not None]
    assert {(row["base_offset"], row["retired_ms"], row["replaced_by"]) for row in retired} == {
        (0, NEWEST + 500, None),
        (10, NEWEST + 500, None),
    }
    assert report.changed[0].metrics["records_before"] == 20
    assert lake.published("orders") == records
    assert files(lake.path / "archive") == archive


@pytest.mark.parametrize("are_deleted", [False, True])
def test_a_lost_ledger_that_is_made_again_says_of_what_left_what_it_said(lake, are_deleted):
    retain(lake, OLD.replace("}}", "}, gappy: {cleanup.policy: delete, retention.ms: '2000'}}"))
    if are_deleted:
        policies, later = read_policies(str(lake.path.parent / "policies.yaml")), NEWEST + 3_600_000
        launch.run(TidyArchiveConfig(str(lake.path), "tidy", later, policies, apply=True, force=True))
        assert any(row["deleted_ms"] is not None for row in lake.rows("segments"))

    def left():
        rows = [row for row in lake.rows("offset_ledger") if row["archived"] != "held"]
        assert all(row["published"] for row in rows)
        return sorted((row["topic"], *(row[name] for name in SAID)) for row in rows)

    before, records = left(), lake.rows("records")
    assert [row[:3] for row in before] == [("gappy", 0, 10), ("orders", 0, 20)]
    shutil.rmtree(lake.path / "tables" / "offset_ledger")
    launch.run(ValidateConfig(str(lake.path), "again", NEWEST))
    assert left() == before
    report = launch.run(ReplaceConfig(str(lake.path), "again", NEWEST))
    assert report.findings == ()
    assert [(log.topic, log.ranges) for log in report.plan.logs] == [
        ("gappy", ((10, 15),)),
        ("orders", ((20, 35),)),
        ("payments", ((0, 20),)),
    ]
    assert left() == before
    assert lake.rows("records") == records


def test_the_size_rule_leaves_at_least_the_limit(lake):
    size = next(row["size"] for row in lake.rows("segments") if row["topic"] == "orders")
    retain(lake, f"topics: {{orders: {{cleanup.policy: delete, retention.bytes: {4 * size - size - 1}}}}}")
    assert spans(lake, "orders") == [(10, 20), (20, 30), (30, 40)]
    assert {row["rule"] for row in lake.rows("log_actions") if row["action"] == "retention"} == {"retention.bytes"}


def test_a_second_run_finds_nothing_and_writes_nothing(lake):
    retain(lake, OLD)
    versions = lake.versions()
    report = retain(lake, OLD)
    assert report.plan.logs == ()
    assert report.changed == ()
    assert lake.versions() == versions


def test_an_unpublished_segment_stays_though_it_is_due(lake):
    [log] = retain(lake, ALL).plan.logs
    assert (log.stays, log.why_it_stays) == (
        30,
        ("it ends at offset 40, and only offsets below 35 are committed",),
    )
    assert spans(lake, "orders") == [(30, 40)]


def test_a_segment_that_is_not_validated_and_all_later_ones_are_kept(lake):
    unvalidated = next(r for r in lake.rows("segments") if (r["topic"], r["base_offset"]) == ("orders", 10))
    commits.delete(str(lake.path), "validations", ("segment_id", [unvalidated["segment_id"]]), "test")
    [log] = retain(lake, ALL).plan.logs
    assert log.why_it_stays == ("it ends at offset 20, and only offsets below 10 are validated",)
    assert spans(lake, "orders") == [(10, 20), (20, 30), (30, 40)]


def test_where_all_leave_the_log_keeps_its_end_and_grows_on(tmp_path):
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    orders = source.partition("orders-0")
    append_segment(orders, [(b"k", b"v")] * 10, 1_700_000_001_000)
    source.high_watermarks(orders_0=10)
    lake.turn(source.path)
    [log] = retain(lake, ALL).plan.logs
    assert (log.stays, log.log_start_offset) == (None, 10)
    assert spans(lake, "orders") == []
    assert retain(lake, ALL).plan.logs == ()
    orders.append(5)
    source.high_watermarks(orders_0=15)
    lake.turn(source.path)
    assert set(lake.published("orders")) == set(range(15))
    assert spans(lake, "orders") == [(10, 15)]
    assert ledger(lake, "orders") == [(0, 10, "present", 10, 0, "retained-away"), (10, 15, "present", 5, 0, "held")]


@pytest.mark.parametrize("on_trim", ["keep", "follow"])
def test_what_the_source_trimmed_leaves_only_where_the_policy_follows_it(tmp_path, on_trim):
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    orders = source.partition("orders-0")
    for second in range(3):
        append_segment(orders, [(b"k", b"v")] * 10, 1_700_000_001_000 + second)
    source.high_watermarks(orders_0=30)
    lake.turn(source.path)
    source.checkpoint("log-start", orders_0=15)
    lake.turn(source.path)
    report = retain(lake, f"topics: {{orders: {{cleanup.policy: [], on_trim: {on_trim}}}}}")
    if on_trim == "keep":
        assert report.plan.logs == ()
        assert spans(lake, "orders") == [(0, 10), (10, 20), (20, 30)]
    else:
        assert [s.rule for s in report.plan.logs[0].segments] == ["log-start-offset"]
        assert spans(lake, "orders") == [(10, 20), (20, 30)]
    assert set(lake.published("orders")) == set(range(30))


def test_a_policy_of_which_nothing_is_due_says_why(lake):
    report = retain(lake, 'topics: {orders: {cleanup.policy: delete, retention.ms: "100000000"}}')
    [other] = report.plan.nothing_due
    assert other.stays == 0
    assert "retention.ms is 100000000" in " ".join(other.why_it_stays)


@pytest.mark.parametrize("policies", ["", "topics: {orders: {cleanup.policy: compact, retention.ms: 0}}"])
def test_without_a_policy_to_delete_nothing_leaves(lake, policies):
    versions = lake.versions()
    assert retain(lake, policies).plan.logs == ()
    assert lake.versions() == versions


def test_counts_of_a_range_with_gaps_are_divided_where_the_segments_meet(lake):
    assert ledger(lake, "gappy") == [(0, 15, "present", 7, 8, "held")]
    retain(lake, 'topics: {gappy: {cleanup.policy: delete, retention.ms: "2000"}}')
    assert ledger(lake, "gappy") == [(0, 10, "present", 2, 8, "retained-away"), (10, 15, "present", 5, 0, "held")]


@pytest.mark.parametrize("survives", ["segments", "offset_ledger"])
def test_a_run_that_died_after_its_swap_is_completed_by_the_next(lake, monkeypatch, survives):
    undisturbed = Lake(Path(shutil.copytree(lake.path, lake.path.parent / "undisturbed")))
    retain(undisturbed, OLD)

    def die(lake: str, name: str, *rest: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(commits, "append", die)  # log_actions, the last commit of the job
        if survives == "segments":
            patch.setattr(retention.removals.frontier, "commit_ledger", die)
        with pytest.raises(KeyboardInterrupt):
            retain(lake, OLD)
    assert spans(lake, "orders") == [(20, 30), (30, 40)]
    assert lake.rows("log_actions") == []

    assert retain(lake, OLD, apply=False).plan.unfinished.segments
    retain(lake, OLD, as_of_ms=NEWEST + 600)
    names = ("segments", "offset_ledger", "log_actions", "records")
    assert tables(lake, *names) == tables(undisturbed, *names)


def test_a_plan_that_another_commit_overtook_is_refused(lake):
    path = lake.path.parent / "policies.yaml"
    path.write_text(OLD)
    config = RetentionConfig(str(lake.path), "late", NEWEST + 500, read_policies(str(path)), apply=True)
    late = retention.plan(config)
    retain(lake, 'topics: {orders: {cleanup.policy: delete, retention.ms: "3000"}}')
    versions = lake.versions()
    with pytest.raises(ConcurrentChange):
        retention.apply(late, config, None)
    assert lake.versions() == versions


@pytest.mark.parametrize("is_filled", [False, True])
def test_damage_that_retention_took_with_its_segment_is_history_to_every_command(
    is_filled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    source, lake, policies = LogDirectory(tmp_path / "source"), str(tmp_path / "lake"), tmp_path / "policies.yaml"
    orders = source.partition("orders-0")
    for _ in range(3):
        orders.append(10, per_batch=5)
        orders.roll()
    orders.append(10)
    source.high_watermarks(orders_0=40)
    replica = shutil.copytree(source.path, tmp_path / "replica")
    damaged = orders.segments()[1]
    damaged.write_bytes(handmade.flip(damaged.read_bytes(), 70))
    rules = 'topics: {"*": {salvage: permissive%s}}'
    policies.write_text(rules % "")
    run = ["run", str(source.path), "--lake", lake, "--policies", str(policies)]
    with without_spark():
        assert main(run) == 2
        assert main(["status", lake]) == 2
        policies.write_text(rules % ", cleanup.policy: delete, retention.bytes: 1")
        main([*run, "--maintain", "--apply"])
        if is_filled:
            assert main([*run, "--fill-from", str(replica)]) == 0
        for command in (run, ["status", lake], ["verify", lake]):  # a run evaluates expectations again
            capsys.readouterr()
            assert main(command) == 0, (command, capsys.readouterr().out)
    rows = DeltaTable(f"{lake}/tables/offset_ledger").to_pyarrow_table().to_pylist()
    found = sorted((row["start_offset"], row["end_offset"], row["state"], row["archived"]) for row in rows)
    assert found[1] == (10, 15, "corrupt", "retained-away")
