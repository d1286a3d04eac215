"""Ticks of schedules on a real instance, and the runs that they ask for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from logcore.logs.model.findings import Finding, Severity
from pipelines.schedules import cron_of
from spark_jobs.contracts import Intake
from spark_jobs.lake.setup.lake_names import key_of
from spark_jobs.lake.setup.registry import remember
from spark_jobs.placed_finding import PlacedFinding
from tests.dagster.conftest import Define, Execute, check_of, materialized, night, tick
from tests.dagster.fake_jobs import World
from tests.dagster.ticks import configs_of, launch, with_policies

pytestmark = [pytest.mark.dagster, pytest.mark.stored]

MAINTENANCE = ("retention", "compaction", "tidy_archive", "rebuild_indexes", "optimize")

NIGHT = datetime(2026, 3, 1, 3, 0, tzinfo=UTC)


@pytest.fixture
def two_lakes(execute: Execute, world: World, home: Path, source: Path) -> list[str]:
    """Two lakes that remember the same source."""
    world.ends = {"orders-0": 3, "orders-1": 3}
    lakes = [str(home / "lakes" / name) for name in ("shop", "store")]
    for lake in lakes:
        assert execute(lake=lake).success
        remember(lake, Intake((str(source),)))
    world.asked.clear()
    return lakes


def nightly(define: Define, instance: dg.DagsterInstance, what: str, moment: datetime = NIGHT) -> list[dg.RunRequest]:
    """What the schedules of both lakes request at this time."""
    return [request for lake in ("shop", "store") for request in night(define(), instance, f"{lake}__{what}", moment)]


def test_a_night_asks_for_one_dry_run_where_policies_say_plan_and_it_runs(
    define: Define, instance: dg.DagsterInstance, world: World, two_lakes: list[str], source: Path
) -> None:
    for lake in two_lakes:
        with_policies(lake, source, "lake: {nightly: plan}")
    requests = nightly(define, instance, "nightly_maintenance")

    jobs = ("shop__maintenance", "store__maintenance")
    results = [launch(define, instance, job, request) for job, request in zip(jobs, requests, strict=True)]

    assert [request.run_key for request in requests] == [f"{key_of(lake)} 2026-03-01" for lake in two_lakes]
    assert [result.success for result in results] == [True, True]
    assert [config.lake for config in world.of("retention")] == two_lakes
    asked = [config for job in MAINTENANCE for config in world.of(job)]
    assert len(asked) == 10
    assert not any(config.apply for config in asked)
    assert materialized(results[0], "retained_log") == []
    plans = [e for e in results[0].all_events if e.event_type is dg.DagsterEventType.ASSET_OBSERVATION]
    observed = {e.asset_observation_data.asset_observation.asset_key.to_user_string() for e in plans}
    made = ("retained_log", "compacted_log", "tidy_archive", "rebuilt_indexes", "optimized_tables")
    assert observed == {f"shop/{asset}" for asset in made}


def test_a_schedule_that_is_switched_on_acts_without_a_second_switch(
    define: Define, instance: dg.DagsterInstance, world: World, two_lakes: list[str], source: Path
) -> None:
    with_policies(two_lakes[1], source, "lake: {nightly: plan}")

    requests = nightly(define, instance, "nightly_maintenance")
    result = launch(define, instance, "shop__maintenance", requests[0])
    launch(define, instance, "store__maintenance", requests[1])

    for job in MAINTENANCE:
        assert [config.apply for config in world.of(job)] == [True, False]
    assert materialized(result, "retained_log") == ["orders-0", "orders-1"]


@pytest.mark.long
def test_every_night_another_seventh_of_each_lake_is_proved_and_red_where_something_is_found(
    define: Define, instance: dg.DagsterInstance, world: World, two_lakes: list[str]
) -> None:
    nights = [NIGHT + timedelta(days=day) for day in range(7)]
    requests = [request for moment in nights for request in nightly(define, instance, "nightly_verification", moment)]
    changed = Finding("archive-file-changed", Severity.ERROR, "another digest", start_offset=3, end_offset=9)
    foreign = Finding("foreign-commit", Severity.INFO, "")
    world.proof = [PlacedFinding(changed, "o/0", "orders", 0), PlacedFinding(foreign)]

    red = launch(define, instance, "shop__verification", requests[0])
    world.proof = world.proof[1:]
    green = launch(define, instance, "store__verification", requests[1])

    assert sorted((request.run_key.partition("-")[0], config["part"]) for request, config in configs_of(requests)) == [
        (lake, part) for lake in ("shop", "store") for part in range(1, 8)
    ]
    assert [(config.lake, config.part, config.parts) for config in world.of("verify")] == [
        (lake, NIGHT.weekday() + 1, 7) for lake in two_lakes
    ]
    check = check_of(red, "lake_verified")
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert check.description == "orders-0 of lake shop, offsets [3, 9): archive-file-changed: another digest"
    assert check_of(green, "lake_verified").passed


def test_lakes_that_share_a_policies_file_start_nothing_until_each_is_switched_on(
    define: Define, two_lakes: list[str], source: Path
) -> None:
    shared = with_policies(two_lakes[0], source, "lake: {ingest: every 5 min}")
    remember(two_lakes[1], Intake((str(source),), policies=str(shared)))

    started = [each for each in define().schedules or () if each.default_status is dg.DefaultScheduleStatus.RUNNING]

    assert {each.name for each in define().schedules or ()} >= {"shop__timed_intake", "store__timed_intake"}
    assert started == []


@pytest.mark.long
@pytest.mark.parametrize("begun_by", ["the schedule", "the sensor", "the pages"])
def test_every_run_that_dagster_starts_has_the_engine_of_the_policies(
    define: Define, instance: dg.DagsterInstance, two_lakes: list[str], source: Path, begun_by: str
) -> None:
    (source / "orders-2").mkdir()
    (source / "orders-2" / f"{0:020d}.log").write_bytes(b"x")
    with_policies(two_lakes[0], source, "lake: {engine: spark}")
    with_policies(two_lakes[1], source, "lake: {engine: local}")

    def begin(lake: str) -> dg.RunRequest:
        if begun_by == "the pages":
            return dg.RunRequest()
        if begun_by == "the sensor":
            (request,) = tick(define(), instance, f"{lake}__new_segments").run_requests or []
        else:
            (request,) = night(define(), instance, f"{lake}__nightly_maintenance", NIGHT)
        return request

    job = "maintenance" if begun_by == "the schedule" else "intake"
    runs = [launch(define, instance, f"{lake}__{job}", begin(lake)).dagster_run for lake in ("shop", "store")]

    engines = [instance.get_run_by_id(run.run_id).tags["loglake/engine"] for run in runs]
    assert engines == ["spark: as requested", "local: as requested"]


def test_policies_with_a_mistake_leave_out_their_lake_alone(
    define: Define, instance: dg.DagsterInstance, two_lakes: list[str], source: Path
) -> None:
    with_policies(two_lakes[0], source, "lake: {}").write_text("lake: {nightly: aply}")

    with pytest.raises(dg.DagsterUserCodeExecutionError) as failed:
        night(define(), instance, "shop__nightly_maintenance", NIGHT)
    assert f"Nothing is started for the lake {two_lakes[0]}: " in str(failed.value.user_exception)
    assert "'aply'" in str(failed.value.user_exception)
    assert len(night(define(), instance, "store__nightly_maintenance", NIGHT)) == 1


def test_a_lake_with_an_interval_is_read_at_the_times_of_its_cron(
    define: Define, instance: dg.DagsterInstance, two_lakes: list[str], source: Path
) -> None:
    policies = with_policies(two_lakes[0], source, "lake: {ingest: every 5 min}")

    schedule = define().resolve_schedule_def("shop__timed_intake")
    ticks = [NIGHT + timedelta(minutes=minute) for minute in (0, 5, 10)]
    requests = [request for tick in ticks for request in night(define(), instance, "shop__timed_intake", tick)]
    policies.write_text("lake: {ingest: by hand}")
    with dg.build_schedule_context(instance=instance, scheduled_execution_time=NIGHT) as context:
        skipped = schedule.evaluate_tick(context)

    assert schedule.cron_schedule == ["*/5 * * * *"]
    assert len({request.run_key for request in requests}) == 3
    assert (skipped.run_requests, skipped.skip_message) == ([], "The policies of the lake say ingest: by hand.")


@pytest.mark.parametrize(
    ("interval", "cron"),
    [
        (60_000, ["* * * * *"]),
        (300_000, ["*/5 * * * *"]),
        (3_600_000, ["0 * * * *"]),
        (5_400_000, ["0 */3 * * *", "30 1,4,7,10,13,16,19,22 * * *"]),
        (21_600_000, ["0 */6 * * *"]),
        (60_000_000, ["0 0 * * *", "40 16 * * *"]),
        (86_400_000, ["0 0 * * *"]),
        (172_800_000, ["0 0 */2 * *"]),
        (30 * 86_400_000, ["0 0 */30 * *"]),
        (365 * 86_400_000, ["0 0 1 * *"]),
    ],
)
def test_an_interval_is_a_cron_schedule_as_people_write_it(interval: int, cron: list[str]) -> None:
    assert cron_of(interval) == cron


@pytest.mark.parametrize("interval", [60_000, 90_000, 420_000, 3_000_000, 5_400_000, 12_345_678, 80_000_000])
def test_an_interval_begins_again_each_midnight(interval: int) -> None:
    def values(field: str, count: int) -> set[int]:
        if field.startswith("*"):
            return set(range(0, count, int(field.removeprefix("*").removeprefix("/") or 1)))
        return set(map(int, field.split(",")))

    fields = [each.split() for each in cron_of(interval)]
    found = {h * 60 + m for minute, hour, *_ in fields for h in values(hour, 24) for m in values(minute, 60)}

    assert found == {at // 60_000 for at in range(0, 86_400_000, interval)}
    assert all(rest == ["*", "*", "*"] for _, _, *rest in fields)


def test_a_lake_without_an_interval_has_no_schedule_for_it_and_one_with_a_mistake_says_so(
    define: Define, instance: dg.DagsterInstance, two_lakes: list[str], source: Path
) -> None:
    of_intake = {each.name for each in define().schedules or () if each.name.endswith("timed_intake")}
    assert of_intake == set()

    with_policies(two_lakes[1], source, "lake: {}").write_text("lake: {ingest: evry 5 min}")
    schedule = define().resolve_schedule_def("store__timed_intake")
    with pytest.raises(dg.DagsterUserCodeExecutionError) as failed:
        night(define(), instance, "store__timed_intake", NIGHT)
    assert "evry 5 min" in str(failed.value.user_exception)
    with_policies(two_lakes[1], source, "lake: {ingest: every 24 h}")
    with dg.build_schedule_context(instance=instance, scheduled_execution_time=NIGHT) as context:
        skipped = schedule.evaluate_tick(context)  # each minute, until Dagster loads the definitions again
    assert not skipped.run_requests
    assert "Reload" in (skipped.skip_message or "")
    assert [each.name for each in define().schedules or () if each.name.startswith("shop__timed")] == []


def test_the_schedule_is_in_utc_and_the_sensor_is_off_until_switched_on(define: Define, shop: str) -> None:
    schedule = define().resolve_schedule_def("shop__nightly_maintenance")
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("0 3 * * *", "UTC")
    assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
    assert define().resolve_sensor_def("shop__new_segments").default_status is dg.DefaultSensorStatus.STOPPED
