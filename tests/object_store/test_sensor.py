"""The sensor for new segments while an object store fails."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from pipelines.run.source_listing import listing_digest
from pipelines.sensors import evaluate
from spark_jobs.contracts import Intake
from spark_jobs.lake.setup.registry import remember
from tests.broker_directory import LogDirectory
from tests.object_store.faults import Answer, FaultyProxy, Request
from tests.object_store.gateway import upload

pytestmark = [pytest.mark.object_store, pytest.mark.dagster]

NOON = 1_800_000_000_000


@pytest.fixture
def lake(bucket: str, proxy: FaultyProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A lake whose source is in a bucket."""
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    made = LogDirectory(tmp_path / "logs")
    made.partition("orders-0").append(30)
    made.high_watermarks(orders_0=30)
    upload(made.path, f"{bucket}/logs")
    path = str(tmp_path / "lake")
    remember(path, Intake((f"{bucket}/logs",)))
    return path


@pytest.mark.parametrize("failing", ["list", "GET"])
def test_a_store_that_fails_skips_the_tick_with_the_reason_and_starts_no_run_when_it_answers_again(
    lake: str, proxy: FaultyProxy, failing: str
) -> None:
    def tick(cursor: str | None, minute: int) -> dg.SensorResult:
        return evaluate(lake, cursor, NOON + minute * 60_000, lambda _: dg.DagsterRunStatus.SUCCESS)

    def rule(request: Request) -> Answer | None:
        return Answer.error(403, "AccessDenied") if request.kind == failing else None

    first = tick(None, 0)
    assert len(first.run_requests or []) == 1
    proxy.rule = rule
    failed = tick(first.cursor, 1)
    proxy.rule = None
    again = tick(failed.cursor, 2)

    assert not failed.run_requests
    assert failed.skip_reason is not None
    assert "denies access" in str(failed.skip_reason.skip_message)
    assert not again.run_requests
    assert again.skip_reason is not None
    assert again.skip_reason.skip_message == "Nothing new."


def test_for_a_watch_a_store_that_fails_is_a_change_that_its_round_reports(
    bucket: str, lake: str, proxy: FaultyProxy
) -> None:
    before = listing_digest([f"{bucket}/logs"])
    proxy.rule = lambda _: Answer.error(403, "AccessDenied")

    assert listing_digest([f"{bucket}/logs"]) != before
