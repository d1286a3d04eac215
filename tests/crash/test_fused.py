"""A run whose jobs hand results to one another and sync late: killed anywhere it loses nothing, commits stay safe."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests import sampling
from tests.broker_directory import LogDirectory, Partition
from tests.crash.forks import Forks, Turn
from tests.crash.sampling import kills
from tests.crash.scene import Scene, begin, grow, lost_without_power
from tests.crash.side_effects import Happening, plain

pytestmark = pytest.mark.crash

THIRD_TOPIC_ID = "DDDDDDDDDDDDDDDDDDDDDA"
FOURTH_TOPIC_ID = "EEEEEEEEEEEEEEEEEEEEEA"


def _with_plain_logs(source: LogDirectory) -> tuple[Partition, Partition, Partition]:
    """Beside a log with transactions and a damaged one: one without either, and one whose end is not decided yet."""
    orders, payments = begin(source)
    views, clicks = source.partition("views-0", THIRD_TOPIC_ID), source.partition("clicks-0", FOURTH_TOPIC_ID)
    views.append(20)
    views.roll()
    views.append(10)
    clicks.append(15)
    source.high_watermarks(orders_0=41, payments_0=20, views_0=30, clicks_0=10)
    return orders, payments, views


@pytest.fixture(scope="module", params=["first", "grown"])
def scene(request: pytest.FixtureRequest, forks: list[Forks], tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A whole run whose jobs hand on results, as one job called ``run``; the tables of separate tasks are expected."""
    scratch = tmp_path_factory.mktemp(f"fused-{request.param}")
    source = LogDirectory(scratch / "source")
    orders, payments, views = _with_plain_logs(source)
    lake, before = scratch / "lake", scratch / "before"
    if request.param == "grown":
        assert forks[0].run(Turn(str(lake), str(source.path), fused=True)).code == 0
        grow(source, orders, payments)
        views.append(10)
        source.high_watermarks(orders_0=55, payments_0=25, views_0=40, clicks_0=15)
        shutil.copytree(lake, before)
    plainly = scratch / "plainly"
    if before.is_dir():
        shutil.copytree(before, plainly)
    expected = forks[0].run(Turn(str(plainly), str(source.path)))
    assert expected.code == 0, expected.said
    journal = scratch / "journal"
    ended = forks[0].run(Turn(str(lake), str(source.path), journal=str(journal), fused=True))
    assert ended.code == 0, ended.said
    lines = [line.partition("\t") for line in journal.read_text().splitlines()]
    effects = {"run": [plain(name) for name, _, _ in lines]}
    journals = {"run": [(*name.split(" ", 1), was) for name, _, was in lines]}
    made = Scene(request.param, forks, source, {"run": before}, effects, journals, expected.tables, scratch)  # type: ignore[arg-type]
    assert made.difference(ended) is None
    return made


def test_records_are_written_before_the_first_commit_of_a_log_that_was_expected_right(scene):
    names = scene.effects["run"]
    first_commit = names.index("commit tables/segments")
    begun = [name for name in names[:first_commit] if name.startswith("begin tables/records/topic=")]
    assert begun, "nothing was fused: these tests look at nothing"
    # A log with damage or transactions is written by publish itself.
    later = [name for name in names[first_commit:] if name.startswith("begin tables/records/topic=orders")]
    assert later


def test_what_a_commit_names_is_on_disk_before_the_commit_though_files_are_synced_late(scene):
    assert not lost_without_power(scene.journals["run"])


@pytest.mark.long
def test_killed_before_any_side_effect_the_next_run_makes_the_tables_of_an_undisturbed_one(scene):
    source = scene.directory.fingerprint()
    known = scene.effects["run"]
    places = kills(known, f"fused {scene.name}")

    def killed(forks: Forks, turn: int) -> str | None:
        number = places[turn]
        lake = scene.lake("run", f"killed-{number}")
        where = f"killed before effect {number + 1}, {known[number]}:"
        died = forks.run(Turn(str(lake), scene.source, happening=Happening("kill", at=number + 1), fused=True))
        if died.code != -signal.SIGKILL:
            return f"{where} it did not die but ended with {died.code}: {died.said}"
        again = Turn(str(lake), scene.source, look_first=True, fused=number % 2 == 0)
        said = scene.difference(forks.run(again))
        shutil.rmtree(lake, ignore_errors=True)
        return said and f"{where} {said}"

    wrong = scene.each(killed, len(places))
    print(f"{scene.name}: killed before {len(places)} of {len(known)} side effects, seed {sampling.SEED}")
    assert not wrong, "\n".join(wrong)
    assert scene.directory.fingerprint() == source


def test_a_run_that_works_ahead_leaves_no_file_that_no_table_names(scene):
    """Results that were expected wrongly are removed by the run that made them."""
    table = scene.scratch / "lake" / "tables" / "records"
    live = {str(Path(path)) for path in DeltaTable(str(table)).file_uris()}
    assert len(live) >= 3
    assert {str(path) for path in table.glob("topic=*/*.parquet")} == live
