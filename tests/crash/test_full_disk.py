"""A full disk is reported, no reader sees a half-done state, and a later run completes the work."""

from __future__ import annotations

import errno
import os
import shutil

import pytest

from tests.crash.forks import JOBS, Forks, Turn
from tests.crash.sampling import failures
from tests.crash.side_effects import Happening

pytestmark = pytest.mark.crash


@pytest.mark.long
@pytest.mark.parametrize("job", JOBS)
def test_a_disk_that_is_full_from_any_side_effect_on_is_named_and_commits_nothing_unfinished(scene, job):
    known = scene.effects[job]
    places = failures(known, f"full disk {scene.name} {job}", only_table_changes=scene.name != "first")

    def filled(forks: Forks, turn: int) -> str | None:
        number = places[turn]
        lake = scene.lake(job, f"full-{job}-{number}")
        code = (errno.ENOSPC, errno.EDQUOT)[number % 2]
        where = f"disk full from effect {number + 1} of {job}, {known[number]}:"
        full = Happening("fail", at=number + 1, errno=code, forever=True)
        ended = forks.run(Turn(str(lake), scene.source, (job,), happening=full))
        released = number > max(at for at, name in enumerate(known) if name.startswith("committed"))
        quiet = ("unlink", "committed", "fsync", *(("truncate lease.json",) if released else ()))
        if ended.code == 0 and not known[number].startswith(quiet):
            return f"{where} nobody said so"
        if ended.code != 0 and not ended.said.startswith(("JobError: ", "CommitUnanswered: ", "OutputMismatch: ")):
            return f"{where} {ended.said[-800:]}"
        if ended.code != 0 and os.strerror(code) not in ended.said:
            return f"{where} the cause is not named: {ended.said[-800:]}"
        left = [path for path in lake.rglob("*") if path.name.endswith((".writing", ".copying", ".tmp"))]
        if left:
            return f"{where} {left[0].name} is left"
        said = scene.difference(forks.run(Turn(str(lake), scene.source, look_first=True)))
        shutil.rmtree(lake, ignore_errors=True)
        return said and f"{where} {said}"

    wrong = scene.each(filled, len(places))
    assert not wrong, "\n".join(wrong)


def test_one_log_whose_files_cannot_be_written_is_reported_and_the_other_continues(scene):
    """The folder of one log, not the disk: read-only, on another disk, of another owner."""
    for job, folder, rule in (
        ("ingest", "archive/BBBBBBBBBBBBBBBBBBBBBQ", "archive-not-written"),
        ("publish", "tables/records/topic=orders", "output-mismatch"),
    ):
        lake = scene.lake(job, f"denied-{job}")
        denied = Happening("fail", named=folder, errno=errno.EACCES)
        ended = scene.forks[0].run(Turn(str(lake), scene.source, JOBS[JOBS.index(job) :], happening=denied))
        assert ended.code == 0, ended.said
        mine = {row for row in ended.tables["records"] if "('topic', 'payments')" in row}
        assert mine == {row for row in scene.undisturbed["records"] if "('topic', 'payments')" in row}
        assert any(f"('rule', '{rule}')" in row and "Permission denied" in row for row in ended.tables["findings"])
        healed = scene.forks[0].run(Turn(str(lake), scene.source, look_first=True))
        assert healed.code == 0, healed.said
        assert healed.tables["records"] == scene.undisturbed["records"]
