"""A watch reports its rounds to Dagster, summed up: at most one run a minute, and none for the sensor."""

from __future__ import annotations

import threading
from pathlib import Path

import dagster as dg
import pytest

from pipelines.command.dagster_history import DagsterHistory
from pipelines.command.watch import Watch
from pipelines.definitions import build_definitions
from pipelines.run.direct import FinishedRun
from pipelines.run.outcome import RunFailure
from pipelines.run.run_request import RunRequest
from spark_jobs import launch
from spark_jobs.lake.view.registered_lakes import read_home
from tests.broker_directory import LogDirectory
from tests.dagster.conftest import tick
from tests.in_process import InProcessExecutor
from tests.jobs.test_watch import grow

pytestmark = [pytest.mark.dagster, pytest.mark.stored]
START_MS = 1_700_000_000_000


class Watched:
    """A watch whose clock the test sets, and what it reported."""

    def __init__(self, folder: Path, home: Path, history: DagsterHistory) -> None:
        self.source, self.now_ms, self.reported, self.complained = LogDirectory(folder / "kafka"), START_MS, [], []
        self.history, self.home = history, home
        request = RunRequest(sources=(str(self.source.path),))
        self.watch = Watch(
            str(folder / "shop"), request, lambda: self.now_ms, print, self.complained.append, record=self.record
        )

    def record(self, run: FinishedRun) -> RunFailure | None:
        self.reported.append(run.run_id)
        return self.history.record(run)

    def rounds(self, *growth: tuple[int, int]) -> None:
        """One look after each growth: the time since the start, and records. Then the watch is stopped."""
        stop, left = threading.Event(), [*growth]

        def wait(_: float | None = None) -> bool:
            if not left:
                stop.set()
                return True
            after_ms, records = left.pop(0)
            self.now_ms = START_MS + after_ms
            grow(self.source, "orders", records)
            return False

        stop.wait = wait  # type: ignore[method-assign]
        wait()
        self.watch.run(stop)

    def published(self) -> list[int]:
        """Records of each materialization of the topic partition, the oldest first."""
        events = self.history.instance.fetch_materializations(dg.AssetKey(["shop", "records"]), limit=99).records
        return [int(each.asset_materialization.metadata["this run"].value.split()[0]) for each in reversed(events)]


@pytest.fixture
def watched(tmp_path: Path, home: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setattr(launch, "start_executor", lambda *_: InProcessExecutor())
    return Watched(tmp_path, home, DagsterHistory(instance))


def test_rounds_of_a_minute_are_one_report_with_the_sum_of_their_records(watched: Watched) -> None:
    watched.rounds((0, 5), (1_000, 7), (2_000, 11), (60_000, 13), (61_000, 17))

    assert watched.published() == [5, 7 + 11 + 13, 17], "at once, after a minute, and at the end"
    assert len(watched.reported) == 3
    assert watched.complained == []


def test_a_watch_without_growth_reports_nothing_more(watched: Watched) -> None:
    watched.rounds((0, 5), (70_000, 0), (140_000, 0))

    assert watched.published() == [5]


def test_what_a_watch_published_is_no_reason_for_the_sensor_to_request_a_run(watched: Watched) -> None:
    watched.rounds((0, 5), (1_000, 7))

    definitions = build_definitions(read_home(str(watched.home)).lakes)
    asked = tick(definitions, watched.history.instance, "shop__new_segments").run_requests
    assert not asked
    grow(watched.source, "payments", 3)
    assert tick(definitions, watched.history.instance, "shop__new_segments").run_requests


def test_a_report_that_fails_ends_no_watch(watched: Watched) -> None:
    watched.watch.record = lambda _: RunFailure("Dagster could not record it", 3)  # type: ignore[arg-type]
    watched.rounds((0, 5), (1_000, 7))

    assert watched.complained == ["Dagster could not record it"], "the same is not said twice in a row"
    assert watched.watch.look() is None
