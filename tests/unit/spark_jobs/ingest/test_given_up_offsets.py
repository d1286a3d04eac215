"""`--high-watermark log-end` goes on without committed offsets that are lost: the lake keeps which ones, for good."""

from __future__ import annotations

from pathlib import Path

import pytest

from logcore.logs.rules import RULES, Persistence
from spark_jobs.contracts import IngestConfig
from spark_jobs.ingest import ingest_job as ingest
from spark_jobs.lake.ledger.finding_rows import read_findings
from tests.broker_directory import LogDirectory
from tests.in_process import InProcessExecutor

RULE = "offsets-given-up"


def turn(lake: Path, source: Path, high_watermark: str) -> None:
    config = IngestConfig(
        lake=str(lake), run_id="run", as_of_ms=0, sources=(str(source),), high_watermark=high_watermark
    )
    plan = ingest.plan(config)
    ingest.apply(plan, config, InProcessExecutor())


def given_up(lake: Path) -> list[tuple[int | None, int | None]]:
    found = [placed for placed in read_findings(str(lake)) if placed.finding.rule == RULE]
    assert all(placed.topic == "orders" and placed.log is not None for placed in found)
    return sorted((placed.finding.start_offset, placed.finding.end_offset) for placed in found)


@pytest.mark.parametrize("is_first_run", [True, False])
def test_lost_offsets_that_a_run_gives_up_are_kept_with_their_range(is_first_run: bool, tmp_path: Path) -> None:
    """The broker's checkpoint has 20, and the log ends at 10. Later the log goes on at 10, with other records."""
    source, lake = LogDirectory(tmp_path / "source"), tmp_path / "lake"
    orders = source.partition("orders-0")
    orders.append(10)
    source.high_watermarks(orders_0=20)
    if not is_first_run:
        turn(lake, source.path, "checkpoint")
        assert given_up(lake) == []
    for _ in range(2):
        turn(lake, source.path, "log-end")
        assert given_up(lake) == [(10, 20)]
    orders.append(15)
    source.high_watermarks(orders_0=25)
    turn(lake, source.path, "log-end")
    assert given_up(lake) == [(10, 20)]
    assert RULES[RULE].persistence is Persistence.FOR_GOOD


def test_a_log_that_reaches_its_high_watermark_gives_nothing_up(tmp_path: Path) -> None:
    source, lake = LogDirectory(tmp_path / "source"), tmp_path / "lake"
    source.partition("orders-0").append(10)
    source.high_watermarks(orders_0=5)
    turn(lake, source.path, "log-end")
    assert given_up(lake) == []
