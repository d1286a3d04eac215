"""Killed anywhere and run again, a lake is what it would have been undisturbed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.commands import Commands, Done
from tests.crash.sampling import EVERY_KILL
from tests.crash.side_effects import Happening, Order, wait_for
from tests.crash.visible import OF_THE_RUN, TABLES, rows

pytestmark = pytest.mark.crash

AS_OF = "1800000000000"
POINTS = [
    "segment copied before its row is committed",
    "segments committed before the row of the log",
    "between batches and validations",
    "ledger committed before validations",
    "Parquet written before the publish commit",
    "publish commit landed before its answer",
    "inside the next job",
]
ON_SPARK = ["Parquet written before the publish commit"]
"""Where a run on Spark is killed too; `make test-long` does so at every point."""


def _source(path: Path) -> LogDirectory:
    """Two logs, one of them with a transaction, an open one, and a damaged batch in a closed segment."""
    source = LogDirectory(path)
    orders, payments = source.partition("orders-0"), source.partition("payments-0", OTHER_TOPIC_ID)
    transactional = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    orders.append(20)
    orders.append(5, **transactional)
    orders.marker(7, handmade.COMMIT)
    orders.roll()
    orders.append(10)
    orders.append(5, **transactional | {"base_sequence": 5})
    payments.append(15)
    first = payments.segments()[0]
    first.write_bytes(handmade.flip(first.read_bytes(), handmade.size_of(first.read_bytes()) + 80))
    payments.roll()
    payments.append(5)
    source.high_watermarks(orders_0=41, payments_0=20)
    return source


def _tables(lake: Path) -> dict[str, list[dict[str, Any]]]:
    """Every table's rows, without what names the run; sorted, so that equal means equal as sets."""
    return {
        name: sorted(({k: v for k, v in row.items() if k not in OF_THE_RUN} for row in rows(lake, name)), key=repr)
        for name in TABLES
    }


@dataclass
class Runs:
    """A source, a home, and who runs commands with them: two servers, for runs that meet."""

    folder: Path
    source: Path
    servers: list[Commands]

    def run(self, lake: Path, server: int = 0, **what_happens: Any) -> Done:
        """``loglake run`` of the source."""
        arguments = ("run", self.source, "--lake", lake, "--as-of", AS_OF)
        return self.servers[server].loglake(*arguments, home=self.folder / "home", **what_happens)

    @cached_property
    def undisturbed(self) -> dict[str, list[dict[str, Any]]]:
        """The tables of a run that nothing happens to."""
        done = self.run(self.folder / "undisturbed")
        assert done.code == 2, done.said  # the damage that was planted, and nothing worse
        tables = _tables(self.folder / "undisturbed")
        assert len(tables["records"]) == 20 + 5 + 10 + 5
        assert {row["state"] for row in tables["offset_ledger"]} == {"present", "open", "corrupt"}
        return tables


@contextmanager
def begun(folder: Path, *, servers: int, on_spark: bool) -> Iterator[Runs]:
    """Servers of commands on a new source."""
    begun = [Commands(folder / f"server-{number}", on_spark=on_spark) for number in range(servers)]
    yield Runs(folder, _source(folder / "source").path, begun)
    for server in begun:
        server.close()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Their tasks run in the command's own process."""
    with begun(tmp_path_factory.mktemp("crash"), servers=2, on_spark=False) as runs:
        yield runs


@pytest.fixture(scope="module")
def runs_on_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    with begun(tmp_path_factory.mktemp("on-spark"), servers=1, on_spark=True) as runs:
        yield runs


@pytest.mark.long
@pytest.mark.parametrize("point", POINTS)
def test_killed_and_run_again_the_tables_are_those_of_an_undisturbed_run(point, runs, tmp_path):
    check_kill(runs, point, tmp_path / "lake")


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("point", POINTS if EVERY_KILL else ON_SPARK)
def test_killed_on_spark_and_run_again_the_tables_are_those_of_an_undisturbed_run(point, runs_on_spark, tmp_path):
    check_kill(runs_on_spark, point, tmp_path / "lake")


def check_kill(runs: Runs, point: str, lake: Path) -> None:
    """Kill a run at this point, and run again."""
    killed = runs.run(lake, point=point)
    assert killed.code == -signal.SIGKILL, f"it did not die at: {point}\n{killed.said}"
    for command, code in (("status", 3), ("verify", 3), ("runs", 0)):
        done = runs.servers[0].loglake(command, lake, home=runs.folder / "home")
        assert (done.code, "The first run did not end" in done.said) == (code, True), done.said
        assert f"`loglake run {runs.source} --lake {lake}`" in done.said
    again = runs.run(lake)
    assert again.code == 2, again.said
    tables = _tables(lake)
    for name in TABLES:
        assert tables[name] == runs.undisturbed[name], name


@pytest.mark.long
def test_of_two_runs_on_one_lake_one_works_and_the_other_names_it(runs, tmp_path):
    lake, marks = tmp_path / "lake", tmp_path / "marks"
    marks.mkdir()
    pause = Order(str(lake), Happening("pause", named="commit tables/segments", signals=str(marks)))
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(runs.run, lake, order=pause)
        try:
            wait_for(marks / "paused")
            second = runs.run(lake, server=1)
        finally:
            (marks / "go-on").touch()
    assert second.code == 3
    assert (marks / "pid").read_text() in second.err
    assert "Traceback" not in second.err
    assert first.result().code == 2, first.result().said
