"""A load in small rounds, killed anywhere: rounds that ended stay, and the next run makes the tables of an undisturbed
one. With tasks in this process, as worker processes run them (fused and with late syncs), and under Spark."""

from __future__ import annotations

import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests import sampling
from tests.broker_directory import LogDirectory
from tests.crash.alone import Step, finish, start
from tests.crash.forks import Forks, Turn
from tests.crash.sampling import EVERY_KILL, kills
from tests.crash.scene import Scene, begin
from tests.crash.side_effects import Happening, Order, plain

pytestmark = pytest.mark.crash

SMALL = {"spark_jobs.ingest.ingest_job.SHARED_BYTES": 0}
"""A segment of a test is a task, small as it is."""


def turn(lake: Path, source: LogDirectory, tasks: int = 1, **more: object) -> Turn:
    return Turn(str(lake), str(source.path), round_tasks=tasks, constants=SMALL, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=["plain", "fused"])
def rounds(request: pytest.FixtureRequest, forks: list[Forks], tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A first load in rounds of one segment, as one job called ``run``; its expected tables are of one round."""
    scratch = tmp_path_factory.mktemp(f"rounds-{request.param}")
    source = LogDirectory(scratch / "source")
    begin(source)
    expected = forks[0].run(turn(scratch / "one", source, 1000))
    assert expected.code == 0, expected.said
    assert [report["job"] for report in expected.reports] == ["ingest", "validate", "publish"]
    journal, is_fused = scratch / "journal", request.param == "fused"
    ended = forks[0].run(turn(scratch / "lake", source, journal=str(journal), fused=is_fused))
    assert ended.code == 0, ended.said
    assert [report["job"] for report in ended.reports] == ["ingest", "validate", "publish"] * 4
    effects = [plain(line.partition("\t")[0]) for line in journal.read_text().splitlines()]
    scene = Scene(
        request.param, forks, source, {"run": scratch / "nothing"}, {"run": effects}, {}, expected.tables, scratch
    )
    assert scene.difference(ended) is None
    return scene


@pytest.mark.long
def test_killed_before_any_side_effect_rounds_that_ended_stay_and_the_next_run_does_the_rest(rounds):
    source = rounds.directory.fingerprint()
    known = rounds.effects["run"]
    ended = [number for number, name in enumerate(known) if name == "committed tables/records"]
    assert len(ended) == 3, "a log is not published beyond its damage"
    # Other tests kill before the effects of a round; new is what lies between two rounds.
    places = kills(known, f"rounds {rounds.name}", only_table_changes=True)
    places = sorted({*places, *(at + 1 for at in ended[:3])})

    def killed(forks: Forks, number: int) -> str | None:
        at = places[number]
        lake = rounds.lake("run", f"killed-{at}")
        where = f"killed before effect {at + 1}, {known[at]}:"
        is_fused = rounds.name == "fused"
        undisturbed = turn(lake, rounds.directory, fused=is_fused)
        died = forks.run(replace(undisturbed, happening=Happening("kill", at=at + 1)))
        if died.code != -signal.SIGKILL:
            return f"{where} it did not die but ended with {died.code}: {died.said}"
        commits = sum(each < at for each in ended)
        if commits and DeltaTable(str(lake / "tables" / "records")).version() < commits:
            return f"{where} {commits} rounds had ended, and not all of them are published"
        again = forks.run(replace(undisturbed, look_first=True, round_tasks=(1, 1000)[at % 2]))
        said = rounds.difference(again)
        shutil.rmtree(lake, ignore_errors=True)
        return said and f"{where} {said}"

    wrong = rounds.each(killed, len(places))
    print(f"{rounds.name}: killed before {len(places)} of {len(known)} side effects, seed {sampling.SEED}")
    assert not wrong, "\n".join(wrong)
    assert rounds.directory.fingerprint() == source


@pytest.mark.long
@pytest.mark.spark
def test_a_round_on_spark_whose_worker_dies_is_lost_alone(forks, tmp_path):
    """Without a retry a dead worker ends the run. What the rounds before published stays, and the next run does the
    rest."""
    source = LogDirectory(tmp_path / "source")
    begin(source)
    expected = forks[0].run(turn(tmp_path / "one", source, 1000))
    chance = sampling.chance("rounds on Spark")
    places = range(1, 40, 3) if EVERY_KILL else sorted(chance.sample(range(1, 30), 2))
    steps: list[Step] = []
    for at in places:
        lake, marks = tmp_path / f"lake-{at}", tmp_path / f"marks-{at}"
        marks.mkdir()
        lake.mkdir()
        order = Order(str(lake), Happening("kill", at=at, once=True, signals=str(marks)))
        steps += [Step(turn(lake, source), order), Step(turn(lake, source, look_first=True))]
    ended = finish(start(tmp_path, steps, "local[1]"))
    for at, failed, healed in zip(places, ended[::2], ended[1::2], strict=True):
        where = f"worker killed before its effect {at}"
        is_killed = (tmp_path / f"marks-{at}" / "happened").exists()
        if is_killed or at < 30:
            assert is_killed, where
            assert failed.said.startswith("JobError: Spark could not finish the job"), f"{where}: {failed.said}"
        else:
            assert failed.code == 0, f"{where}: {failed.said}"
        assert (healed.code, healed.tables) == (0, expected.tables), f"{where}: {healed.said}"
