"""The checks of maintenance: what a person sees red, on a real instance. Some lakes are real, some have fake jobs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from deltalake import DeltaTable

from logcore.logs.model.findings import Finding, Severity
from pipelines.catalog.names import name_in_lake
from pipelines.catalog.run_configuration import run_config
from pipelines.definitions import build_definitions
from pipelines.run.chains import MAINTENANCE
from pipelines.run.check_definitions import OF_MAINTENANCE
from pipelines.run.run_request import RunRequest
from spark_jobs.contracts import Intake
from spark_jobs.lake.setup.registry import remember
from spark_jobs.lake.view.dagster_reports import recorded_answers
from spark_jobs.lake.view.registered_lakes import read_registered
from spark_jobs.outlines import (
    CompactionOutline,
    LakeFile,
    LakeFiles,
    LeftTable,
    OptimizeOutline,
    RetentionOutline,
    TidyOutline,
)
from spark_jobs.placed_finding import PlacedFinding
from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.dagster.conftest import Execute, check_of, loglake
from tests.dagster.fake_jobs import OUTLINES, World, log_of
from tests.in_process import without_spark
from tests.spark.archived import append_segment

pytestmark = [pytest.mark.dagster, pytest.mark.stored]

DAY = 86_400_000
FIRST = 1_700_000_001_000
DUE = FIRST + 2000
"""When the first two segments of `orders` reach their age."""
POLICIES = """
topics:
  orders: {cleanup.policy: delete, retention.ms: 2000}
  customers: {cleanup.policy: compact, segment.bytes: 14, salvage: permissive, delete.retention.ms: 0}
"""


def evaluated(result: dg.ExecuteInProcessResult) -> dict[str, bool]:
    """What each check of maintenance said; one without an answer is not there."""
    found = result.get_asset_check_evaluations()
    return {c.check_name: c.passed for c in found if c.asset_key.path[-1] in OF_MAINTENANCE}


# --- real jobs --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", autouse=True)
def tasks_in_process() -> Iterator[None]:
    with without_spark():
        yield


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """orders: two old segments and a young one. customers: three segments, the second one damaged."""
    folder = tmp_path_factory.mktemp("maintained")
    source = LogDirectory(folder / "source")
    orders, customers = source.partition("orders-0"), source.partition("customers-0", OTHER_TOPIC_ID)
    for at in range(3):
        append_segment(orders, [(b"k%d" % n, b"v") for n in range(10)], FIRST + 30 * DAY * (at == 2))
        append_segment(customers, [(b"k%d" % (n % 4), b"v") for n in range(20)], FIRST)
    damaged = customers.segments()[1]
    damaged.write_bytes(handmade.flip(damaged.read_bytes(), 80))
    source.high_watermarks(orders_0=30, customers_0=60)
    (folder / "policies.yaml").write_text(POLICIES)
    options = ["--lake", folder / "shop", "--policies", folder / "policies.yaml"]
    done = loglake("run", source.path, *options, LOGLAKE_HOME=str(folder / "home"))
    assert done.returncode == 2, done.stderr  # the damage
    return folder


Maintain = Callable[..., dg.ExecuteInProcessResult]


@pytest.fixture
def shop(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built / "shop", tmp_path / "shop"))


@pytest.fixture
def maintain(built: Path, shop: Path, instance: dg.DagsterInstance) -> Maintain:
    """``maintain(as_of_ms, apply=…)``: one run of the lake's job, with real jobs."""
    remember(str(shop), Intake((str(built / "source"),), policies=str(built / "policies.yaml")))
    of = read_registered(str(shop))

    def run(as_of_ms: int, **settings: Any) -> dg.ExecuteInProcessResult:
        result = (
            build_definitions([of])
            .resolve_job_def(name_in_lake(of, "maintenance"))
            .execute_in_process(
                instance=instance, run_config=run_config(of, "maintenance", RunRequest(as_of_ms=as_of_ms, **settings))
            )
        )
        assert result.success
        return result

    return run


@pytest.mark.long
def test_a_plan_that_is_not_carried_out_is_red_after_seven_days_and_green_when_it_was_carried_out(
    maintain: Maintain,
) -> None:
    early = maintain(DUE + 7 * DAY)
    assert check_of(early, "retention_carried_out").passed
    assert "indexes_written" not in evaluated(early), "a plan has written nothing"

    late = maintain(DUE + 7 * DAY + 1)
    check = check_of(late, "retention_carried_out")
    assert not check.passed
    assert check.severity is dg.AssetCheckSeverity.WARN
    assert "orders-0" in (check.description or "")
    assert "--apply" in check.metadata["what to do"].value

    carried_out = maintain(DUE + 7 * DAY + 1, apply=True)
    assert check_of(carried_out, "retention_carried_out").passed
    assert evaluated(carried_out)["indexes_written"]
    assert evaluated(maintain(DUE + 20 * DAY))["retention_carried_out"], "nothing is due any more"


@pytest.mark.long
def test_a_refused_cleaning_is_red_with_its_place_and_stays_red_until_it_is_cleaned(maintain: Maintain) -> None:
    for result in (maintain(DUE + DAY, apply=True), maintain(DUE + DAY, apply=True), maintain(DUE + DAY)):
        check = check_of(result, "no_cleaning_refused")
        assert not check.passed
        assert "customers-0" in (check.description or "")
        assert "position" in (check.description or "")


def test_an_archived_file_that_lost_a_byte_is_red(maintain: Maintain, shop: Path) -> None:
    assert check_of(maintain(DUE), "archive_bytes_match").passed
    rows = DeltaTable(str(shop / "tables" / "segments")).to_pyarrow_table().to_pylist()
    (path,) = [row["path"] for row in rows if (row["topic"], row["base_offset"]) == ("orders", 10)]
    file = shop / path
    os.truncate(file, file.stat().st_size - 1)

    check = check_of(maintain(DUE), "archive_bytes_match")
    assert not check.passed
    assert check.severity is dg.AssetCheckSeverity.ERROR
    assert "orders-0" in (check.description or "")


# --- fake jobs --------------------------------------------------------------------------------------------------------


@pytest.fixture
def lake(execute: Execute, world: World, home: Path) -> str:
    """A lake with two logs."""
    world.ends = {"orders-0": 3, "orders-1": 3}
    path = str(home / "lakes" / "shop")
    assert execute(lake=path).success
    return path


def test_a_check_that_looked_at_nothing_has_not_passed_and_dagster_shows_it_as_skipped(
    execute: Execute, instance: dg.DagsterInstance, world: World, lake: str
) -> None:
    world.reported = {"retention": {"plan": RetentionOutline()}, "compaction": {"plan": CompactionOutline()}}
    result = execute("maintenance", lake=lake)

    assert set(evaluated(result)) == {"archive_bytes_match", "no_file_waits_for_deletion", "table_files_sound"}
    assert any("retention_carried_out: No segment" in each.user_message for each in instance.all_logs(result.run_id))
    key = dg.AssetCheckKey(dg.AssetKey(["shop", "retained_log"]), "retention_carried_out")
    (record,) = instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
    assert record.status is AssetCheckExecutionRecordStatus.PLANNED


@pytest.mark.long
def test_files_that_wait_for_their_deletion_are_red_after_seven_days(execute: Execute, world: World, lake: str) -> None:
    def plan(waits_ms: int) -> dict[str, Any]:
        file = LakeFile("archive/a/0/0/0.log", 7, 90 * DAY, waits_ms)
        return {"plan": TidyOutline(LakeFiles(1, 7, (file,)))}

    world.reported = {"tidy_archive": plan(7 * DAY)}
    assert check_of(execute("maintenance", lake=lake), "no_file_waits_for_deletion").passed
    world.reported = {"tidy_archive": plan(7 * DAY + 1)}
    check = check_of(execute("maintenance", lake=lake), "no_file_waits_for_deletion")
    assert not check.passed
    assert "archive/a/0/0/0.log" in (check.description or "")
    assert check_of(execute("maintenance", lake=lake, apply=True), "no_file_waits_for_deletion").passed


def finding(rule: str, severity: str, log: str | None = None) -> PlacedFinding:
    """A finding of a job, as reports have it."""
    said = Finding(rule, Severity(severity), "a message", "a-file")
    return PlacedFinding(said) if log is None else PlacedFinding(said, log_of(log), log.rpartition("-")[0], 1)


@pytest.mark.parametrize(
    ("job", "check", "rule", "severity", "log"),
    [
        ("compaction", "no_cleaning_refused", "compaction-unproven", "error", "orders-1"),
        ("tidy_archive", "no_file_waits_for_deletion", "archive-not-deleted", "warning", None),
        ("rebuild_indexes", "indexes_written", "index-not-rebuilt", "warning", "orders-1"),
        ("optimize", "table_files_sound", "table-file-damaged", "error", "orders-1"),
    ],
)
def test_what_a_job_could_not_do_is_red_and_says_what_to_do(
    execute: Execute, world: World, lake: str, job: str, check: str, rule: str, severity: str, log: str | None
) -> None:
    world.reported = {job: {"plan": OUTLINES[job], "findings": (finding(rule, severity, log),)}}
    result = execute("maintenance", lake=lake, apply=True)
    assert result.success

    made = check_of(result, check)
    assert not made.passed
    assert made.severity.value == {"error": "ERROR", "warning": "WARN"}[severity]
    assert f"{rule}: a message" in (made.description or "")
    assert "a-file" in (made.description or "")
    assert made.metadata["what to do"].value.endswith(".")
    (row,) = made.metadata["where"].records
    assert str(row.data["topic partition"]).startswith(log or "")
    assert [name for name, passed in evaluated(result).items() if not passed] == [check]


def test_a_table_that_is_left_as_it_is_is_yellow_in_a_plan_too_with_its_own_reason(
    execute: Execute, world: World, lake: str
) -> None:
    why = "its log is damaged. Remove its directory, then write it again: loglake decode LAKE --replace orders"
    world.reported = {"optimize": {"plan": OptimizeOutline(left=(LeftTable("decoded/orders", why),))}}
    check = check_of(execute("maintenance", lake=lake), "table_files_sound")
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert f"table decoded/orders: its files stay as they are, because {why}" in (check.description or "")


def test_answers_of_maintenance_do_not_replace_those_that_a_look_for_work_compares(
    execute: Execute, instance: dg.DagsterInstance, lake: str
) -> None:
    before = recorded_answers(lake, instance.root_directory)
    assert before is not None
    assert execute("maintenance", lake=lake).success
    assert recorded_answers(lake, instance.root_directory) == before


def test_each_check_of_maintenance_has_an_asset_and_says_what_to_do() -> None:
    checks = [definition for step in MAINTENANCE for definition in step.checks]
    assert {definition.asset for definition in checks} == {step.asset for step in MAINTENANCE} == OF_MAINTENANCE
    assert all(definition.what_to_do.endswith(".") for definition in checks)
