"""Ticks on a real instance, and the runs that they ask for."""

from __future__ import annotations

import itertools
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from pipelines.sensors import evaluate
from spark_jobs.contracts import Intake
from spark_jobs.lake.setup.lake_names import key_of
from spark_jobs.lake.setup.registry import registration_file, remember
from tests.dagster.conftest import Define, Execute, check_of, materialized, night, tick
from tests.dagster.fake_jobs import World

pytestmark = [pytest.mark.dagster, pytest.mark.stored]

MAINTENANCE = ("retention", "compaction", "tidy_archive", "rebuild_indexes", "optimize")

NOON = 1_800_000_000_000
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


def launch(define: Define, instance: dg.DagsterInstance, job: str, request: dg.RunRequest):
    """What the daemon does with a run request, in this process."""
    return (
        define()
        .resolve_job_def(job)
        .execute_in_process(
            instance=instance, run_config=request.run_config, tags=dict(request.tags), raise_on_error=False
        )
    )


def nightly(define: Define, instance: dg.DagsterInstance, what: str, moment: datetime = NIGHT) -> list[dg.RunRequest]:
    """What the schedules of both lakes request at this time."""
    return [request for lake in ("shop", "store") for request in night(define(), instance, f"{lake}__{what}", moment)]


def test_a_night_asks_for_one_dry_run_of_maintenance_a_lake_and_it_runs(
    define: Define, instance: dg.DagsterInstance, world: World, two_lakes: list[str]
) -> None:
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


def test_a_night_acts_only_on_a_lake_whose_owner_wrote_so(
    define: Define, instance: dg.DagsterInstance, world: World, two_lakes: list[str]
) -> None:
    registered = Path(registration_file(two_lakes[0]))
    registered.write_text(registered.read_text().replace('"apply_nightly": false', '"apply_nightly": true'))

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
    world.proof = [
        {"rule": "archive-file-changed", "severity": "error", "message": "another digest", "log": "o/0"}
        | {"topic": "orders", "partition": 0, "start_offset": 3, "end_offset": 9},
        {"rule": "foreign-commit", "severity": "info", "message": "", "log": None}
        | {"topic": None, "partition": None, "start_offset": None, "end_offset": None},
    ]

    red = launch(define, instance, "shop__verification", requests[0])
    world.proof = world.proof[1:]
    green = launch(define, instance, "store__verification", requests[1])

    assert sorted((request.run_key.partition("-")[0], config["part"]) for request, config in _configs(requests)) == [
        (lake, part) for lake in ("shop", "store") for part in range(1, 8)
    ]
    assert [(config.lake, config.part, config.parts) for config in world.of("verify")] == [
        (lake, NIGHT.weekday() + 1, 7) for lake in two_lakes
    ]
    check = check_of(red, "lake_verified")
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert check.description == "orders-0 of lake shop, offsets 3..9: archive-file-changed: another digest"
    assert check_of(green, "lake_verified").passed


def _with_policies(lake: str, source: Path, text: str) -> Path:
    policies = source.parent / f"{Path(lake).name}.yaml"
    policies.write_text(text)
    remember(lake, Intake((str(source),), policies=str(policies)))
    return policies


def test_policies_decide_what_a_night_does_with_each_lake(
    define: Define, instance: dg.DagsterInstance, two_lakes: list[str], source: Path
) -> None:
    _with_policies(two_lakes[0], source, "lake: {nightly: apply, verify: off}")
    _with_policies(two_lakes[1], source, "lake: {nightly: off}")

    (maintenance,) = nightly(define, instance, "nightly_maintenance")
    (verification,) = nightly(define, instance, "nightly_verification")

    assert maintenance.run_key.startswith("shop-")
    assert _configs([maintenance])[0][1]["apply"] is True
    assert verification.run_key.startswith("store-")


@pytest.mark.long
@pytest.mark.parametrize("begun_by", ["the schedule", "the sensor", "the pages"])
def test_every_run_that_dagster_starts_has_the_engine_of_the_policies(
    define: Define, instance: dg.DagsterInstance, two_lakes: list[str], source: Path, begun_by: str
) -> None:
    (source / "orders-2").mkdir()
    (source / "orders-2" / f"{0:020d}.log").write_bytes(b"x")
    _with_policies(two_lakes[0], source, "lake: {engine: spark}")
    _with_policies(two_lakes[1], source, "lake: {engine: local}")

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
    _with_policies(two_lakes[0], source, "lake: {}").write_text("lake: {nightly: aply}")

    assert [request.run_key.startswith("store-") for request in nightly(define, instance, "nightly_maintenance")] == [
        True
    ]


def test_a_lake_with_an_interval_is_read_once_in_each_and_another_never(
    define: Define, instance: dg.DagsterInstance, two_lakes: list[str], source: Path
) -> None:
    _with_policies(two_lakes[0], source, "lake: {ingest: every 5 min}")
    minutes = [NIGHT + timedelta(minutes=minute) for minute in range(20)]

    definitions = define()
    requests = [request for minute in minutes for request in night(definitions, instance, "shop__timed_intake", minute)]

    assert [request.run_key.startswith("shop-") for request in requests] == [True] * 4
    assert len({request.run_key for request in requests}) == 4
    schedule = define().resolve_schedule_def("shop__timed_intake")
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING


def test_a_lake_without_an_interval_has_no_schedule_for_it_and_one_with_a_mistake_says_so(
    define: Define, instance: dg.DagsterInstance, two_lakes: list[str], source: Path
) -> None:
    of_intake = {each.name for each in define().schedules or () if each.name.endswith("timed_intake")}
    assert of_intake == set()

    _with_policies(two_lakes[1], source, "lake: {}").write_text("lake: {ingest: evry 5 min}")
    schedule = define().resolve_schedule_def("store__timed_intake")
    with dg.build_schedule_context(instance=instance, scheduled_execution_time=NIGHT) as context:
        skipped = schedule.evaluate_tick(context)
    assert not skipped.run_requests
    assert "evry 5 min" in (skipped.skip_message or "")
    assert [each.name for each in define().schedules or () if each.name.startswith("shop__timed")] == []


def _configs(requests: list[dg.RunRequest]) -> list[tuple[dg.RunRequest, dict]]:
    """Each request, and the only configuration in it."""
    found = []
    for request in requests:
        (op,) = request.run_config["ops"].values()
        found.append((request, op["config"] if "config" in op else op["ops"]["begin"]["config"]))
    return found


def test_the_schedule_is_in_utc_and_the_sensor_is_off_until_switched_on(define: Define, shop: str) -> None:
    schedule = define().resolve_schedule_def("shop__nightly_maintenance")
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("0 3 * * *", "UTC")
    assert define().resolve_sensor_def("shop__new_segments").default_status is dg.DefaultSensorStatus.STOPPED


class Broker:
    """A log directory whose logs get segments, as a broker would leave it: names and sizes are all that counts here."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def segment(self, name: str, base_offset: int, size: int = 100) -> Path:
        """A segment file of this size."""
        path = self.directory / name / f"{base_offset:020d}.log"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(size))
        os.utime(path, ns=(10**18 + size, 10**18 + size))
        return path

    def high_watermarks(self, **offsets: int) -> None:
        """The checkpoint file beside the partition directories."""
        lines = [f"{name.replace('_', ' ')} {offset}" for name, offset in offsets.items()]
        text = "\n".join(["0", str(len(lines)), *lines]) + "\n"
        (self.directory / "replication-offset-checkpoint").write_text(text)


@pytest.fixture
def broker(source: Path) -> Broker:
    """The source, with two logs of two segments each."""
    broker = Broker(source)
    for name in ("orders-0", "orders-1"):
        broker.segment(name, 0)
        broker.segment(name, 10)
    broker.high_watermarks(orders_0=5, orders_1=5)
    return broker


@pytest.fixture
def shop(home: Path, source: Path) -> str:
    """A lake that remembers the source and has taken in nothing."""
    lake = str(home / "lakes" / "shop")
    remember(lake, Intake((str(source),)))
    return lake


class Runs:
    """The runs of a daemon that ends each run with the given status."""

    def __init__(self) -> None:
        self.status: dict[str, dg.DagsterRunStatus] = {}

    def of(self, run_key: str) -> dg.DagsterRunStatus | None:
        """The status of a run."""
        return self.status.get(run_key)


class Sensor:
    """Ticks one after another, with what the last one kept."""

    def __init__(self, lake: str) -> None:
        self.lake, self.runs, self.cursor = lake, Runs(), None
        self.last: list[str] = []
        self.reason: str | None = None

    def tick(self, now_ms: int = NOON) -> list[str]:
        """The lakes for which a run is requested: this one or none."""
        result = evaluate(self.lake, self.cursor, now_ms, self.runs.of)
        self.cursor, self.reason = result.cursor, result.skip_reason.skip_message if result.skip_reason else None
        requests = result.run_requests or []
        self.last = [request.run_key for request in requests]
        assert all(config == {"at_once": False} for _, config in _configs(requests))
        return [self.lake for request in requests if request.run_key.startswith(key_of(self.lake))]

    def end(self, status: dg.DagsterRunStatus = dg.DagsterRunStatus.SUCCESS) -> None:
        """End the runs of the last tick."""
        self.runs.status |= dict.fromkeys(self.last, status)


@pytest.fixture
def sensor(shop: str, broker: Broker) -> Sensor:
    """A sensor whose first request has been handled."""
    sensor = Sensor(shop)
    assert sensor.tick() == [shop]
    sensor.end()
    return sensor


def test_a_tick_asks_for_new_logs_the_run_takes_them_in_and_the_next_tick_is_quiet(
    define: Define, instance: dg.DagsterInstance, world: World, shop: str, broker: Broker
) -> None:
    world.ends = {"orders-0": 12, "orders-1": 12}
    first = tick(define(), instance, "shop__new_segments")
    (request,) = first.run_requests or []
    request = request._replace(tags={**request.tags, "dagster/run_key": request.run_key})  # as the daemon does

    result = launch(define, instance, "shop__intake", request)

    assert result.success
    assert materialized(result, "records") == ["orders-0", "orders-1"]
    assert [config.lake for config in world.of("ingest")] == [shop]
    second = tick(define(), instance, "shop__new_segments", first.cursor)
    assert second.run_requests == []
    assert second.skip_message == "Nothing new."


def test_a_closed_segment_and_a_new_log_are_requested_at_once(sensor: Sensor, shop: str, broker: Broker) -> None:
    assert sensor.tick() == []
    broker.segment("orders-1", 20)
    closed = sensor.tick()
    sensor.end()
    broker.segment("orders-7", 0)
    new = sensor.tick()

    assert (closed, new) == ([shop], [shop])


def test_growth_of_an_active_segment_is_requested_within_the_longest_delay_for_seven_days(
    sensor: Sensor, shop: str, broker: Broker
) -> None:
    """Once a growing segment was never asked for."""
    minutes = range(7 * 24 * 60) if os.environ.get("LOGLAKE_TEST_EVERY_TICK") else range(24 * 60)
    asked = []
    for minute in minutes:
        broker.segment("orders-1", 10, size=5000 + minute)
        if sensor.tick(NOON + minute * 60_000):
            asked.append(minute)
            sensor.end()

    assert asked[0] <= 10
    assert max(later - earlier for earlier, later in itertools.pairwise(asked)) <= 12
    assert len(asked) >= len(minutes) // 12


def test_closed_segments_that_become_visible_are_requested(sensor: Sensor, shop: str, broker: Broker) -> None:
    broker.high_watermarks(orders_0=10, orders_1=5)
    visible = sensor.tick()
    sensor.end()
    broker.high_watermarks(orders_0=11, orders_1=5)

    assert (visible, sensor.tick()) == ([shop], [])


@pytest.mark.parametrize("end", [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED, None])
def test_a_change_whose_run_failed_or_got_lost_is_requested_again_later_each_time(
    shop: str, broker: Broker, end: dg.DagsterRunStatus | None
) -> None:
    sensor = Sensor(shop)
    times = []
    keys = set()
    for minute in range(120):
        if sensor.tick(NOON + minute * 60_000):
            times.append(minute)
            keys.update(sensor.last)
            if end is not None:
                sensor.end(end)

    waits = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert waits[:4] == ([1, 2, 4, 8] if end is not None else [10, 10, 10, 10])
    assert len(keys) == len(times)
    sensor.end()
    assert sensor.tick(NOON + 121 * 60_000) == []


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTED])
def test_while_a_run_of_a_lake_waits_or_runs_no_other_is_requested(
    shop: str, broker: Broker, status: dg.DagsterRunStatus
) -> None:
    sensor = Sensor(shop)
    assert sensor.tick() == [shop]
    key = sensor.last[0]
    sensor.end(status)
    for minute in range(60):
        broker.segment("orders-1", 20 + minute)
        assert sensor.tick(NOON + minute * 60_000) == []

    sensor.runs.status[key] = dg.DagsterRunStatus.SUCCESS
    assert sensor.tick(NOON + 61 * 60_000) == [shop]


@pytest.mark.parametrize(
    "cursor", ['{"position": "", "logs": {"shop:orders-0": "0123"}, "due": {}}', '{"lakes": {}}', "[]", "{", '"x"']
)
def test_a_cursor_in_another_form_asks_for_one_run(shop: str, broker: Broker, cursor: str) -> None:
    sensor = Sensor(shop)
    sensor.cursor = cursor
    assert sensor.tick() == [shop]
    sensor.end()
    assert sensor.tick() == []


def test_the_cursor_does_not_grow_with_the_logs(sensor: Sensor, broker: Broker) -> None:
    sensor.tick()
    small = len(sensor.cursor)
    for number in range(2, 300):
        broker.segment(f"orders-{number}", 0)
    sensor.tick()
    sensor.end()
    sensor.tick()

    assert abs(len(sensor.cursor) - small) < 10


def test_a_source_that_is_not_there_any_more_asks_for_one_run_that_reports_it(
    sensor: Sensor, shop: str, source: Path
) -> None:
    source.rename(source.parent / "elsewhere")
    assert sensor.tick() == [shop]
    sensor.end()
    assert sensor.tick() == []


def test_directories_that_wait_for_deletion_are_not_watched(sensor: Sensor, broker: Broker) -> None:
    broker.segment("orders-7.0123456789abcdef0123456789abcdef-delete", 0)

    assert sensor.tick() == []


def test_a_partition_directory_that_is_a_link_is_watched(
    sensor: Sensor, shop: str, broker: Broker, tmp_path: Path
) -> None:
    (broker.directory / "orders-1").rename(tmp_path / "volume")
    (broker.directory / "orders-1").symlink_to(tmp_path / "volume")
    sensor.tick()
    sensor.end()
    assert sensor.tick() == []
    broker.segment("orders-1", 20)

    assert sensor.tick() == [shop]


def test_a_change_that_may_wait_is_requested_once_more_after_the_longest_delay(sensor: Sensor, shop: str) -> None:
    ticks = [sensor.tick(NOON + 599_999), sensor.tick(NOON + 600_000)]
    sensor.end()
    ticks += [sensor.tick(NOON + 700_000), sensor.tick(NOON + 1_900_000)]

    assert ticks == [[], [shop], [], []]


def test_a_lake_that_is_read_at_intervals_or_by_hand_is_left_to_that(
    sensor: Sensor, shop: str, source: Path, broker: Broker
) -> None:
    broker.segment("orders-1", 20)
    kept = sensor.cursor
    for ingest in ("every 5 min", "by hand"):
        _with_policies(shop, source, f"lake: {{ingest: {ingest}}}")
        assert sensor.tick() == []
        assert "another value of ingest" in sensor.reason
    assert sensor.cursor == kept
    _with_policies(shop, source, "lake: {}")
    assert sensor.tick() == [shop]
