"""Scheduled runs leave a small growth of a log's end for later, at most for as long as its policy says."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs import launch
from spark_jobs.contracts import IngestConfig, JobReport
from spark_jobs.policies.policies_file import read_policies
from tests.broker_directory import LogDirectory
from tests.spark.cycle import AS_OF_MS, Lake

DELAY_MS = 60_000


@pytest.fixture
def policies(tmp_path: Path) -> str:
    path = tmp_path / "policies.yaml"
    path.write_text(f'topics:\n  "*": {{active.min.growth: 400, publish.max.delay: {DELAY_MS}}}\n')
    return str(path)


def scheduled(lake: Lake, source: LogDirectory, policies: str, after_ms: int) -> JobReport:
    lake.turns += 1
    run_id = f"run-{lake.turns}"
    config = IngestConfig(
        str(lake.path),
        (str(source.path),),
        run_id,
        AS_OF_MS + after_ms,
        policies=read_policies(policies),
        at_once=False,
    )
    return launch.run(config)


def ends(lake: Lake) -> list[int]:
    return sorted(row["next_offset"] for row in lake.rows("segments"))


def test_a_small_growth_waits_until_its_time_has_come_and_nothing_is_written_meanwhile(source, lake, policies):
    orders = source.partition("orders-0")
    orders.append(5)
    source.high_watermarks(orders_0=5)
    scheduled(lake, source, policies, 0)
    assert ends(lake) == [5], "what is first taken of a log does not wait"
    versions = lake.versions()
    orders.append(5)
    for after_ms, high_watermark in ((1, 6), (DELAY_MS // 2, 8), (DELAY_MS - 1, 10)):
        source.high_watermarks(orders_0=high_watermark)
        report = scheduled(lake, source, policies, after_ms)
        assert not report.used_executor
        assert not report.changed
        assert not report.findings
        assert lake.versions() == versions
    scheduled(lake, source, policies, DELAY_MS)
    assert ends(lake) == [5, 10]
    assert [row["high_watermark"] for row in lake.rows("logs")] == [10]


def test_enough_growth_and_a_sealed_segment_never_wait(source, lake, policies):
    orders = source.partition("orders-0")
    orders.append(5)
    source.high_watermarks(orders_0=5)
    scheduled(lake, source, policies, 0)
    grown = orders.append(20)
    assert len(grown) >= 400
    scheduled(lake, source, policies, 1)
    assert ends(lake) == [5, 25]
    orders.append(5)
    orders.roll()
    orders.append(5)
    source.high_watermarks(orders_0=35)
    scheduled(lake, source, policies, 2)
    assert ends(lake) == [5, 25, 30], "the sealed rest is taken, the small new segment waits"
    assert not lake.rules(), "committed records that wait are not missing"


def test_a_run_at_once_takes_every_growth(source, lake, policies):
    orders = source.partition("orders-0")
    orders.append(5)
    lake.turn(source.path, policies=policies, publish=False)
    orders.append(5)
    lake.turn(source.path, policies=policies, publish=False)
    assert ends(lake) == [5, 10]
