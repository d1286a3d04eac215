"""Killed before any single side effect and run again, a lake is what it would have been undisturbed.

The side effects are not chosen by hand: an undisturbed run writes down its own, and each is a place to die at. One
process is driver and workers here; killed workers under Spark are in `test_workers`, whole commands in
`test_kill`.
"""

from __future__ import annotations

import shutil
import signal

import pytest

from tests import sampling
from tests.crash.forks import JOBS, Forks, Turn
from tests.crash.sampling import DOUBLE_CRASHES, kills
from tests.crash.scene import Scene, lost_without_power
from tests.crash.side_effects import Happening
from tests.long_runs import Kind, record

pytestmark = pytest.mark.crash


def test_the_side_effects_that_are_known_are_among_those_found(scene):
    names = [name for job in JOBS for name in scene.effects[job]]
    is_first = "create tables/records" in names
    for table in ("segments", "logs", "batches", "transactions", "offset_ledger", "validations", "records"):
        assert f"commit tables/{table}" in names
        assert f"committed tables/{table}" in names
    for topic in ("orders", "payments") if is_first else ("orders",):
        for kind in ("begin", "fill", "close", "fsync"):
            assert any(name.startswith(f"{kind} tables/records/topic={topic}/") for name in names), (kind, topic)
    archived = [name for name in names if name.startswith("rename archive/") and name.endswith(".log")]
    assert len(archived) == (4 if is_first else 3)
    assert "open lease.json" in names
    print(f"{len(names)} side effects: " + ", ".join(f"{job} {len(scene.effects[job])}" for job in JOBS))
    assert len(names) >= (140 if is_first else 80)


def test_what_a_commit_names_is_on_disk_with_all_folders_around_it_before_the_commit(scene):
    for job in JOBS:
        lost = lost_without_power(scene.journals[job])
        assert not lost, f"{job}: {lost}"


@pytest.mark.long
@pytest.mark.parametrize("job", JOBS)
def test_killed_before_any_side_effect_the_next_run_makes_the_tables_of_an_undisturbed_one(scene, job):
    check_kills(scene, job, only_table_changes=scene.name != "first")


def check_kills(scene: Scene, job: str, *, only_table_changes: bool) -> None:
    """Kill the job before side effects of all kinds, or before some kinds only; and run again."""
    source = scene.directory.fingerprint()
    known = scene.effects[job]
    places = kills(known, f"{scene.name} {job}", only_table_changes=only_table_changes)

    def killed(forks: Forks, turn: int) -> str | None:
        number = places[turn]
        lake = scene.lake(job, f"killed-{job}-{number}")
        where = f"killed before effect {number + 1} of {job}, {known[number]}:"
        died = forks.run(Turn(str(lake), scene.source, (job,), happening=Happening("kill", at=number + 1)))
        if died.code != -signal.SIGKILL:
            return f"{where} it did not die but ended with {died.code}: {died.said}"
        said = scene.difference(forks.run(Turn(str(lake), scene.source, look_first=True)))
        shutil.rmtree(lake, ignore_errors=True)
        return said and f"{where} {said}"

    wrong = scene.each(killed, len(places))
    print(f"{scene.name}: {job} was killed before {len(places)} of {len(known)} side effects, seed {sampling.SEED}")
    assert not wrong, "\n".join(wrong)
    assert scene.directory.fingerprint() == source


@pytest.mark.long
def test_killed_twice_at_random_the_third_run_makes_the_tables_of_an_undisturbed_one(scene):
    chance = sampling.chance(f"{scene.name} twice")
    total = sum(len(scene.effects[job]) for job in JOBS)
    places = [(chance.randint(1, total), chance.randint(1, total)) for _ in range(DOUBLE_CRASHES)]

    def killed_twice(forks: Forks, number: int) -> str | None:
        lake = scene.lake("ingest", f"twice-{number}")
        for at in places[number]:  # the second run may have less to do and live
            forks.run(Turn(str(lake), scene.source, look_first=True, happening=Happening("kill", at=at)))
        said = scene.difference(forks.run(Turn(str(lake), scene.source, look_first=True)))
        shutil.rmtree(lake, ignore_errors=True)
        return said and f"seed {sampling.SEED}, killed at {places[number]}: {said}"

    wrong = scene.each(killed_twice, len(places))
    assert not wrong, "\n".join(wrong)
    record(Kind.DOUBLE_CRASHES, scene.name, len(places), sampling.SEED)
