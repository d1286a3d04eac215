"""Ticks of the sensor on a real instance, and the runs that they ask for."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import dagster as dg
import pytest

from pipelines.sensors import evaluate
from spark_jobs.lake.setup.lake_names import key_of
from tests.dagster.conftest import Define, materialized, tick
from tests.dagster.fake_jobs import World
from tests.dagster.ticks import configs_of, launch, with_policies

pytestmark = [pytest.mark.dagster, pytest.mark.stored]

NOON = 1_800_000_000_000


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
        assert all(config == {"at_once": False} for _, config in configs_of(requests))
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
        with_policies(shop, source, f"lake: {{ingest: {ingest}}}")
        assert sensor.tick() == []
        assert "another value of ingest" in sensor.reason
    assert sensor.cursor == kept
    with_policies(shop, source, "lake: {}")
    assert sensor.tick() == [shop]
