"""A Python worker of Spark that dies at a side effect costs a retry, or where there is none a run that says so."""

from __future__ import annotations

import pytest

from tests.crash.alone import Step, finish, start
from tests.crash.forks import JOBS, Ended, Turn
from tests.crash.prepared import Prepared
from tests.crash.side_effects import Happening

pytestmark = [pytest.mark.crash, pytest.mark.spark]

EFFECTS_OF_A_TASK = {"ingest": 12, "validate": 6, "publish": 8}
"""At least so many side effects has a worker in each job on the source of these tests."""
EVERY = {"ingest": 3, "validate": 2, "publish": 1}
"""All of those of publishing, of the others some: `test_every_side_effect` has the rest, without Spark."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return Prepared(tmp_path_factory.mktemp("workers"))


@pytest.mark.long
def test_a_worker_killed_before_any_of_its_side_effects_is_replaced_and_its_orphans_are_not_seen(prepared):
    places = [(job, at) for job in JOBS for at in range(1, EFFECTS_OF_A_TASK[job] + 1, EVERY[job])]
    made = [prepared.step(job, f"{job}-{at}", Happening("kill", at=at, once=True)) for job, at in places]
    ended = finish(start(prepared.scratch, [step for step, _ in made], "local[2,4]"))
    assert len(ended) == len(places)
    for (job, at), (_, marks), end in zip(places, made, ended, strict=True):
        where = f"worker killed before effect {at} of {job}"
        assert (marks / "happened").exists(), f"{where}: it was not"
        assert end.code == 0, f"{where}: {end.said}"
        assert end.tables == prepared.after[job], where


@pytest.mark.long
def test_without_a_retry_the_job_fails_with_a_line_that_can_be_read_and_the_next_run_heals(prepared):
    steps = []
    for job, at in (("ingest", 9), ("publish", 6)):
        step, _ = prepared.step(job, f"{job}-fails", Happening("kill", at=at, once=True))
        steps += [step, Step(Turn(step.turn.lake, step.turn.source, look_first=True))]
    ended = finish(start(prepared.scratch, steps, "local[2]"))
    for failed, healed in zip(ended[::2], ended[1::2], strict=True):
        assert failed.code == 1
        assert failed.said.startswith("JobError: Spark could not finish the job")
        assert len(failed.said) < 500
        assert "Traceback" not in failed.said
        _equal(healed, prepared.after["publish"])


def _equal(ended: Ended, tables: dict[str, list[str]]) -> None:
    assert ended.code == 0, ended.said
    for name, rows in tables.items():
        assert ended.tables[name] == rows, name
