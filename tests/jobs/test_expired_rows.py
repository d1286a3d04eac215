"""`records.retention.ms`: which rows leave which tables, what records it, and that nothing brings them back."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from copy import copy
from pathlib import Path
from time import time
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, TableFeatures, write_deltalake

from logcore.cli import main
from spark_jobs import launch
from spark_jobs.contracts import DecodeConfig, JobReport, LatestConfig, PublishConfig, ReplaceConfig, RetentionConfig
from spark_jobs.errors import TableRefused
from spark_jobs.lake.published import withdrawals
from spark_jobs.policies.policies_file import read_policies
from spark_jobs.retention import expired_rows
from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.in_process import without_spark
from tests.spark.archived import files
from tests.spark.cycle import AS_OF_MS, Lake

FIRST_MS = 1_700_000_000_000
SECOND = 1000
RULES = "decode.key: string, decode.value: string, latest: delete"
NONE = f'topics: {{"*": {{{RULES}}}}}'
KEEP_20_S = f'topics: {{orders: {{{RULES}, records.retention.ms: 20000}}, "*": {{{RULES}}}}}'
END_MS = FIRST_MS + 39 * SECOND
"""Timestamp of the newest row of orders."""


class Kept:
    """orders: four published files of ten rows, a second apart, with ten keys in turn. payments: as old, no policy."""

    def __init__(self, folder: Path) -> None:
        self.source, self.lake, self.policies = (
            LogDirectory(folder / "source"),
            Lake(folder / "lake"),
            folder / "p.yaml",
        )
        self.orders = self.source.partition("orders-0")
        self.orders.roll(0)
        self.payments = self.source.partition("payments-0", OTHER_TOPIC_ID)
        self.payments.roll(0)
        self.payments.write(handmade.simple_batch(0, [(b"k", b"v")] * 5, base_timestamp=FIRST_MS, leader_epoch=0))
        self.payments.next_offset = 5
        self.rule(NONE)
        for _ in range(4):
            self.append()

    def rule(self, policies: str) -> None:
        self.policies.write_text(policies)

    def append(self, timestamps: list[int] | None = None) -> None:
        """Write ten rows, or one a timestamp, as a batch; publish, decode, and keep the newest."""
        first = self.orders.next_offset
        times = timestamps or [FIRST_MS + SECOND * (first + at) for at in range(10)]
        rows = [
            handmade.record(at, b"k%d" % ((first + at) % 10), b"v%d" % (first + at), timestamp_delta=time - times[0])
            for at, time in enumerate(times)
        ]
        self.orders.write(handmade.batch(rows, base_offset=first, base_timestamp=times[0], max_timestamp=max(times)))
        self.orders.next_offset += len(rows)
        self.source.high_watermarks(orders_0=self.orders.next_offset, payments_0=5)
        self.lake.turn(self.source.path, policies=str(self.policies))
        self.follow()

    def follow(self) -> dict[str, JobReport]:
        policies = read_policies(str(self.policies))
        made = [
            launch.run(each(str(self.lake.path), each.JOB, AS_OF_MS, policies)) for each in (DecodeConfig, LatestConfig)
        ]
        return {report.job: report for report in made}

    def retain(self, *, apply: bool = True, as_of_ms: int = END_MS + SECOND) -> JobReport:
        policies = read_policies(str(self.policies))
        return launch.run(RetentionConfig(str(self.lake.path), "retain", as_of_ms, policies, apply=apply))

    def files(self) -> dict[str, bytes]:
        return files(self.lake.path / "tables")

    def offsets(self, table: str, topic: str = "orders") -> list[int]:
        rows = DeltaTable(str(self.lake.path / "tables" / table)).to_pyarrow_table().to_pylist()
        return sorted(row["offset"] for row in rows if row.get("topic", topic) == topic)

    def verified(self, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
        capsys.readouterr()
        code = main.main(["verify", str(self.lake.path)])
        return code, capsys.readouterr().out


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return Kept(tmp_path_factory.mktemp("built"))


@pytest.fixture
def kept(built: Kept, tmp_path: Path) -> Kept:
    """A copy of the lake; its source may not grow."""
    made = copy(built)
    made.lake, made.policies = Lake(Path(shutil.copytree(built.lake.path, tmp_path / "lake"))), tmp_path / "p.yaml"
    made.rule(NONE)
    return made


@pytest.fixture
def growing(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def withdrawn(kept: Kept) -> list[Mapping[str, Any]]:
    return sorted(kept.lake.rows("withdrawals"), key=lambda row: row["start_offset"])


def test_without_the_setting_no_row_ever_expires(kept):
    assert kept.retain(as_of_ms=END_MS * 2).plan.rows == ()
    assert kept.offsets("records") == list(range(40))


def test_a_dry_run_names_the_rows_and_changes_no_table(kept):
    kept.rule(KEEP_20_S)
    before = kept.files()
    report = kept.retain(apply=False)
    [log] = report.plan.rows
    # The clock is at second 40: rows of second 20 are 20 seconds old, and those of second 19 are older.
    assert (log.topic_partition, log.start_offset, log.end_offset, log.records) == ("orders-0", 0, 20, 20)
    assert report.metrics["expired_rows"] == 20
    assert kept.files() == before


def test_old_rows_leave_every_table_of_the_topic_and_no_other(kept, capsys):
    kept.rule(KEEP_20_S)
    report = kept.retain(as_of_ms=END_MS - 4 * SECOND)
    for table in ("records", "decoded/orders"):
        assert kept.offsets(table) == list(range(15, 40))
    assert kept.offsets("latest/orders") == list(range(30, 40))
    assert [(change.topic_partition, change.metrics["expired_rows"]) for change in report.changed] == [("orders-0", 15)]
    assert kept.offsets("records", "payments") == list(range(5))
    [row] = withdrawn(kept)
    named = {name: row[name] for name in ("start_offset", "end_offset", "records", "who", "reason", "cause")}
    assert named == {
        "start_offset": 0,
        "end_offset": 15,
        "records": 15,
        "who": "retention",
        "reason": "records.retention.ms",
        "cause": "expired",
    }
    code, said = kept.verified(capsys)
    assert code == 0, said
    assert len(kept.lake.rows("segments")) == 5, "the archive keeps its segments"


def test_the_newest_row_of_a_key_expires_too(kept, capsys):
    kept.rule(KEEP_20_S)
    kept.retain(as_of_ms=END_MS + 15 * SECOND)
    assert kept.offsets("latest/orders") == list(range(34, 40))
    assert kept.verified(capsys)[0] == 0


def test_tables_that_follow_are_not_made_again(growing):
    growing.rule(KEEP_20_S)
    growing.retain()
    plans = {job: report.plan.topics for job, report in growing.follow().items()}
    assert not [topic for topics in plans.values() for topic in topics if topic.replaces or topic.note or topic.waits]
    growing.append()
    assert growing.offsets("decoded/orders") == list(range(20, 50))
    assert growing.offsets("latest/orders") == list(range(40, 50))


def test_a_second_run_finds_nothing_and_writes_nothing(kept):
    kept.rule(KEEP_20_S)
    kept.retain()
    before = kept.files()
    assert kept.retain().plan.rows == ()
    assert kept.files() == before


@pytest.mark.parametrize("at", [0, 11, 21])
def test_a_second_run_expires_nothing_more_where_a_log_has_a_transaction_marker(tmp_path, at):
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    orders, offset, rows = source.partition("orders-0"), 0, []
    orders.roll(0)
    for _ in range(3):
        if offset == at:
            orders.write(handmade.marker(at, handmade.COMMIT, producer_id=9, base_timestamp=FIRST_MS))
            offset += 1
        records = [handmade.record(n, b"k", b"v", timestamp_delta=n * SECOND) for n in range(10)]
        began = FIRST_MS + len(rows) * SECOND
        last = began + 9 * SECOND
        orders.write(handmade.batch(records, base_offset=offset, base_timestamp=began, max_timestamp=last))
        rows += range(offset, offset + 10)
        offset += 10
    source.high_watermarks(orders_0=offset)
    lake.turn(source.path)
    policies = tmp_path / "p.yaml"
    policies.write_text("topics: {orders: {records.retention.ms: 15000}}")
    config = RetentionConfig(str(lake.path), "retain", FIRST_MS + 30 * SECOND, read_policies(str(policies)), apply=True)
    for _ in range(2):
        launch.run(config)
        assert sorted(lake.published("orders")) == rows[15:]
    assert main.main(["verify", str(lake.path)]) == 0


def test_rows_expire_up_to_the_first_younger_one_or_one_without_a_timestamp(growing):
    growing.append([END_MS + 100 * SECOND, FIRST_MS])
    growing.append()
    growing.rule(KEEP_20_S)
    growing.retain(as_of_ms=END_MS + 90 * SECOND)
    assert growing.offsets("records") == list(range(40, 52))


def test_rows_without_a_timestamp_never_expire(tmp_path):
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    orders = source.partition("orders-0")
    orders.roll(0)
    orders.write(handmade.simple_batch(0, [(b"k", b"v")] * 3, base_timestamp=FIRST_MS, leader_epoch=0))
    orders.write(handmade.simple_batch(3, [(b"k", b"v")] * 3, base_timestamp=-1, leader_epoch=0))
    source.high_watermarks(orders_0=6)
    lake.turn(source.path)
    policies = tmp_path / "p.yaml"
    policies.write_text("topics: {orders: {records.retention.ms: 1}}")
    config = RetentionConfig(str(lake.path), "retain", END_MS, read_policies(str(policies)), apply=True)
    launch.run(config)
    assert sorted(lake.published("orders")) == [3, 4, 5]


def test_neither_replacement_nor_repair_nor_growth_brings_them_back(growing, capsys):
    growing.rule(KEEP_20_S)
    growing.retain()
    lake, policies = str(growing.lake.path), read_policies(str(growing.policies))
    launch.run(ReplaceConfig(lake, "again", AS_OF_MS, start_offset=0, policies=policies))
    assert growing.offsets("records") == list(range(20, 40))
    growing.append()
    assert growing.offsets("records") == list(range(20, 50))
    launch.run(ReplaceConfig(lake, "back", AS_OF_MS, start_offset=0, policies=policies, include_withdrawn=True))
    assert growing.offsets("records") == list(range(50))
    assert withdrawn(growing) == []
    growing.follow()
    assert growing.verified(capsys)[0] == 0


def dies_after(patched: pytest.MonkeyPatch, commits: int) -> None:
    """The job dies before it commits once more than that."""
    left = [commits]

    def dying(function: Any) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            return function(*args, **named)

        return call

    patched.setattr(withdrawals.commits, "append", dying(withdrawals.commits.append))
    patched.setattr(withdrawals.frontier, "commit_ledger", dying(withdrawals.frontier.commit_ledger))
    patched.setattr(expired_rows, "rewrite_files", dying(expired_rows.rewrite_files))


@pytest.mark.parametrize("commits", range(5))
def test_a_job_that_dies_between_its_commits_is_completed_by_the_next(kept, commits, monkeypatch, capsys):
    kept.rule(KEEP_20_S)
    with monkeypatch.context() as patched:
        dies_after(patched, commits)
        with pytest.raises(KeyboardInterrupt):
            kept.retain()
    kept.retain()
    kept.follow()
    for table in ("records", "decoded/orders"):
        assert kept.offsets(table) == list(range(20, 40))
    [row] = withdrawn(kept)
    assert (row["start_offset"], row["end_offset"], row["records"]) == (0, 20, 20)
    code, said = kept.verified(capsys)
    assert code == 0, said


def test_rows_of_another_engines_mixed_file_expire_and_others_of_the_file_stay(kept, capsys):
    DeltaTable(str(kept.lake.path / "tables" / "records")).optimize.compact()
    kept.rule(KEEP_20_S)
    kept.retain()
    assert kept.offsets("records") == list(range(20, 40))
    assert kept.offsets("records", "payments") == list(range(5))
    code, said = kept.verified(capsys)
    assert code == 0, said


@pytest.mark.parametrize("descending", [False, True])
def test_the_rows_that_stay_of_a_file_of_several_logs_have_a_file_for_each_log(tmp_path, descending):
    source, lake = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake")
    for number in range(2):
        log = source.partition(f"orders-{number}")
        log.roll(0)
        for first in range(0, 20, 10):
            times = FIRST_MS + SECOND * first
            log.write(handmade.simple_batch(first, [(b"k", b"v")] * 10, base_timestamp=times, leader_epoch=0))
    source.high_watermarks(orders_0=20, orders_1=20)
    lake.turn(source.path)
    table = DeltaTable(str(lake.path / "tables" / "records"))
    rows = table.to_pyarrow_table()
    order = "descending" if descending else "ascending"
    write_deltalake(table, rows.sort_by([("offset", order), ("partition", "ascending")]), mode="overwrite")
    policies = tmp_path / "p.yaml"
    policies.write_text("topics: {orders: {records.retention.ms: 5s}}")
    as_of_ms = FIRST_MS + 10 * SECOND
    config = RetentionConfig(str(lake.path), "retain", as_of_ms, read_policies(str(policies)), apply=True)
    launch.run(config)
    table = DeltaTable(str(lake.path / "tables" / "records"))
    held = [pq.read_table(unquote(path)).to_pylist() for path in table.file_uris()]
    found = [[(row["partition"], row["offset"]) for row in rows] for rows in held]
    assert sorted(found) == [[(number, offset) for offset in range(10, 20)] for number in range(2)]
    assert launch.run(config).plan.rows == ()
    assert DeltaTable(str(lake.path / "tables" / "records")).version() == table.version()


def test_segments_and_rows_leave_in_one_run(kept, capsys):
    kept.rule(KEEP_20_S.replace("records.", "cleanup.policy: delete, retention.ms: 1, records."))
    report = kept.retain()
    assert (report.metrics["due_segments"], report.metrics["expired_rows"]) == (4, 20)
    [change] = report.changed
    assert {name: change.metrics[name] for name in ("segments", "expired_rows", "start_offset", "end_offset")} == {
        "segments": 4,
        "expired_rows": 20,
        "start_offset": 0,
        "end_offset": 20,
    }
    assert kept.offsets("records") == list(range(20, 40))
    assert kept.verified(capsys)[0] == 0


def test_what_somebody_withdrew_stays_withdrawn_beside_what_expires(kept, capsys):
    DeltaTable(str(kept.lake.path / "tables" / "records")).delete("topic = 'orders' AND offset IN (3, 4)")
    assert main.main(["withdraw", str(kept.lake.path), "--reason", "asked", "--apply"]) == 0
    kept.rule(KEEP_20_S)
    kept.retain()
    found = [(row["start_offset"], row["end_offset"], row["records"], row["cause"]) for row in withdrawn(kept)]
    assert found == [(0, 3, 3, "expired"), (3, 5, 2, "withdrawn"), (5, 20, 15, "expired")]
    kept.follow()
    assert kept.verified(capsys)[0] == 0


def test_lineage_says_that_a_row_has_expired(kept, capsys):
    kept.rule(KEEP_20_S)
    kept.retain()
    capsys.readouterr()
    main.main(["lineage", str(kept.lake.path), "--offset", "orders-0:7"])
    assert "expired: retention removed its row at" in capsys.readouterr().out


def test_rows_leave_the_table_of_uncommitted_records_too(kept, capsys):
    lake, policies = str(kept.lake.path), read_policies(None)
    launch.run(PublishConfig(lake, "uncommitted", AS_OF_MS, policies=policies, isolation_level="read_uncommitted"))
    assert kept.offsets("records_uncommitted") == list(range(40))
    kept.rule(KEEP_20_S)
    kept.retain()
    assert kept.offsets("records_uncommitted") == list(range(20, 40))
    code, said = kept.verified(capsys)
    assert code == 0, said


def test_old_rows_of_runs_leave_and_the_newest_of_each_job_stays(tmp_path):
    source, lake, policies = LogDirectory(tmp_path / "source"), tmp_path / "lake", tmp_path / "p.yaml"
    orders = source.partition("orders-0")
    orders.roll(0)
    for _ in range(3):
        orders.append(1)
        source.high_watermarks(orders_0=orders.next_offset)
        assert main.main(["run", str(source.path), "--lake", str(lake)]) == 0
    policies.write_text("lake: {runs.retention.ms: 0}\ntopics: {}\n")
    newest = max(Lake(lake).rows("runs"), key=lambda row: row["ended_ms"])
    config = RetentionConfig(str(lake), "retain", newest["ended_ms"] + 1, read_policies(str(policies)), apply=True)
    launch.run(config)
    assert Lake(lake).rows("runs") == [newest]


def test_a_file_of_another_engine_with_two_partitions_is_written_again_once(tmp_path):
    source, lake, policies = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake"), tmp_path / "p.yaml"
    for name, times in (("orders-0", [END_MS]), ("orders-1", [FIRST_MS, END_MS])):
        partition = source.partition(name)
        partition.roll(0)
        for at, at_ms in enumerate(times):
            partition.write(handmade.simple_batch(5 * at, [(b"k", b"v")] * 5, base_timestamp=at_ms, leader_epoch=0))
    source.high_watermarks(orders_0=5, orders_1=10)
    lake.turn(source.path)
    DeltaTable(str(lake.path / "tables" / "records")).optimize.compact()
    policies.write_text("topics: {orders: {records.retention.ms: 20000}}")
    config = RetentionConfig(str(lake.path), "retain", END_MS + SECOND, read_policies(str(policies)), apply=True)
    launch.run(config)
    before = files(lake.path / "tables")
    assert (sorted(lake.published("orders")), sorted(lake.published("orders", 1))) == ([*range(5)], [*range(5, 10)])
    launch.run(config)
    assert files(lake.path / "tables") == before


def test_rows_that_were_published_again_expire_by_their_age_alone(kept, capsys):
    kept.rule(KEEP_20_S)
    kept.retain()
    lake, policies = str(kept.lake.path), read_policies(str(kept.policies))
    launch.run(ReplaceConfig(lake, "back", AS_OF_MS, None, 10, 15, policies=policies, include_withdrawn=True))
    kept.rule(KEEP_20_S.replace("20000", "30000"))
    kept.retain()
    assert kept.offsets("records") == [*range(10, 15), *range(20, 40)]
    kept.rule(KEEP_20_S)
    kept.retain()
    assert kept.offsets("records") == list(range(20, 40))
    kept.follow()
    assert kept.verified(capsys)[0] == 0


def test_rows_that_come_late_between_expired_ones_are_published_and_expire_by_their_age_alone(tmp_path, capsys):
    source, lake, policies = LogDirectory(tmp_path / "source"), Lake(tmp_path / "lake"), tmp_path / "p.yaml"
    orders = source.partition("orders-0")
    for at in range(3):
        orders.roll(5 * at)
        times = {"base_timestamp": FIRST_MS + at * SECOND, "leader_epoch": 0}
        orders.write(handmade.simple_batch(5 * at, [(b"k", b"v")] * 5, **times))
    source.high_watermarks(orders_0=15)
    [_, second, _] = orders.segments()
    second.rename(tmp_path / "away")
    policies.write_text("topics: {orders: {salvage: permissive}}")
    lake.turn(source.path, policies=str(policies))
    assert sorted(lake.published("orders")) == [*range(5), *range(10, 15)]

    def retain(limit_ms: int, as_of_ms: int) -> None:
        policies.write_text(f"topics: {{orders: {{salvage: permissive, records.retention.ms: {limit_ms}}}}}")
        config = RetentionConfig(str(lake.path), "retain", as_of_ms, read_policies(str(policies)), apply=True)
        launch.run(config)

    retain(SECOND, FIRST_MS + 4 * SECOND)
    assert lake.published("orders") == {}
    (tmp_path / "away").rename(second)
    lake.turn(source.path, policies=str(policies))
    launch.run(ReplaceConfig(str(lake.path), "late", AS_OF_MS, policies=read_policies(str(policies))))
    assert sorted(lake.published("orders")) == [*range(5, 10)]
    retain(4 * SECOND, FIRST_MS + 5 * SECOND)
    assert sorted(lake.published("orders")) == [*range(5, 10)]
    retain(SECOND, FIRST_MS + 4 * SECOND)
    assert lake.published("orders") == {}
    capsys.readouterr()
    assert main.main(["verify", str(lake.path)]) == 0
    assert sorted((row["start_offset"], row["end_offset"], row["records"]) for row in lake.rows("withdrawals")) == [
        (0, 10, 10),
        (10, 15, 5),
    ]


def test_before_anything_is_recorded_a_table_that_may_not_lose_rows_is_refused(kept, capsys):
    kept.rule(KEEP_20_S)
    tables = kept.lake.path / "tables"
    DeltaTable(str(tables / "records")).alter.set_table_properties({"delta.appendOnly": "true"})
    before = kept.files()
    with pytest.raises(TableRefused, match="Table records: it is append-only"):
        kept.retain()
    assert kept.files() == before
    DeltaTable(str(tables / "records")).alter.set_table_properties({"delta.appendOnly": "false"})
    DeltaTable(str(tables / "decoded" / "orders")).alter.add_feature(
        TableFeatures.DeletionVectors, allow_protocol_versions_increase=True
    )
    before = kept.files()
    for _ in range(2):
        [left] = kept.retain().plan.rows_kept
        assert left.topic_partition == "orders-0"
        assert "Table decoded/orders uses deletionVectors" in left.why
        assert "Remove its directory" in left.why
        assert kept.files() == before
    shutil.rmtree(tables / "decoded" / "orders")
    assert kept.retain().plan.rows_kept == ()
    kept.follow()
    assert kept.offsets("decoded/orders") == list(range(20, 40))
    assert kept.verified(capsys)[0] == 0


@pytest.mark.parametrize("commits", range(5))
def test_what_was_recorded_is_completed_also_if_the_policy_is_gone(kept, commits, monkeypatch, capsys):
    kept.rule(KEEP_20_S)
    with monkeypatch.context() as patched:
        dies_after(patched, commits)
        with pytest.raises(KeyboardInterrupt):
            kept.retain()
    was_recorded = bool(withdrawn(kept))
    kept.rule(NONE)
    kept.retain()
    kept.follow()
    assert kept.offsets("records") == list(range(20 if was_recorded else 0, 40))
    code, said = kept.verified(capsys)
    assert code == 0, said


def test_a_log_has_one_row_of_what_expired_after_many_nights(kept, capsys):
    kept.rule(KEEP_20_S)
    for night in range(4):
        kept.retain(as_of_ms=END_MS + SECOND * (1 + 3 * night))
    assert kept.offsets("records") == list(range(29, 40))
    assert [(row["start_offset"], row["end_offset"], row["records"]) for row in withdrawn(kept)] == [(0, 29, 29)]
    assert kept.verified(capsys)[0] == 0


@pytest.mark.parametrize(
    ("deleted", "causes"),
    [
        ((), [(0, 4, "expired")]),
        (None, [(0, 4, "unknown")]),  # and the table of runs was lost too
        ((1,), [(0, 4, "unknown"), (4, 5, "withdrawn")]),
        ((1, 6), [(0, 4, "unknown"), (6, 7, "withdrawn")]),
        ((1, 4), [(0, 5, "unknown")]),  # the first row that stays has offset 5
    ],
)
def test_a_lost_table_of_withdrawals_is_recorded_again_without_a_cause_that_nothing_proves(
    tmp_path, monkeypatch, capsys, deleted, causes
):
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    now, year = int(time() * 1000), 365 * 24 * 3_600_000
    source, lake, policies = LogDirectory(tmp_path / "source"), str(tmp_path / "lake"), tmp_path / "policies.yaml"
    policies.write_text(f"topics: {{orders: {{records.retention.ms: {year}}}}}")
    orders = source.partition("orders-0")
    orders.roll()
    for at_ms in (now - 2 * year, now):
        rows = [(b"k%d" % at, b"v") for at in range(4)]
        orders.write(handmade.simple_batch(orders.next_offset, rows, base_timestamp=at_ms, leader_epoch=0))
        orders.next_offset += 4
    source.high_watermarks(orders_0=8)
    run = ["run", str(source.path), "--lake", lake, "--policies", str(policies)]
    with without_spark():
        assert main.main(run) == 0
        if deleted:
            DeltaTable(f"{lake}/tables/records").delete(f"offset IN ({', '.join(map(str, deleted))})")
            assert main.main(["withdraw", lake, "--apply"]) == 0
        assert main.main([*run, "--maintain", "--apply"]) == 0
        if deleted == (1,):  # beside those that have expired
            DeltaTable(f"{lake}/tables/records").delete("offset = 4")
            assert main.main(["withdraw", lake, "--apply"]) == 0
        shutil.rmtree(f"{lake}/tables/withdrawals")
        if deleted is None:
            shutil.rmtree(f"{lake}/tables/runs")
            assert main.main([*run, "--maintain"]) == 2
        assert main.main(["repair", lake, "--rebuild", "withdrawals", "--apply"]) == 0
        assert main.main([*run, "--maintain", "--apply"]) == 0
        assert main.main(["verify", lake]) == 0, capsys.readouterr().out
        rows = DeltaTable(f"{lake}/tables/withdrawals").to_pyarrow_table().to_pylist()
        found = sorted((row["start_offset"], row["end_offset"], row["cause"]) for row in rows)
        assert [(start, end, cause) for start, end, cause in joined_by_cause(found)] == causes
        capsys.readouterr()
        assert main.main(["lineage", lake, "--offset", "orders-0:1"]) == 0
        said = capsys.readouterr().out
        assert ("withdrawn or expired: " in said, "expired: retention removed its row, " in said) == (
            deleted != (),
            deleted == (),
        )


def joined_by_cause(rows):
    """Neighbours of one cause as one: how often the ledger is cut says nothing."""
    joined = []
    for start, end, cause in rows:
        if joined and joined[-1][1:] == (start, cause):
            start = joined.pop()[0]
        joined.append((start, end, cause))
    return joined
