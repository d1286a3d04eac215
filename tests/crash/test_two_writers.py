"""Two runs at once, the lease taken away from the first: guards in the commits keep the tables right.

The first is stopped before each of its side effects in turn; the second then does its whole work; the first goes on
with a plan that is old. In the end every table is what one run alone would have made.
"""

from __future__ import annotations

import shutil
import threading

import pytest

from tests.crash.forks import JOBS, Ended, Turn
from tests.crash.sampling import EVERY_KILL
from tests.crash.side_effects import Happening, wait_for

pytestmark = pytest.mark.crash

DRIVEN = {"create", "commit", "committed"} if EVERY_KILL else {"create", "commit"}
"""Before these the first run waits. Between a commit and its answer it has nothing left to do wrong but to go on."""


@pytest.mark.long
@pytest.mark.parametrize("job", JOBS)
def test_whenever_the_lease_is_lost_to_another_run_the_tables_are_those_of_one_run(scene, job):
    known = scene.effects[job]
    # Uncommitted files of workers are invisible to readers, so one point among their effects is as good as all.
    pairs = [number for number, name in enumerate(known) if name.split()[0] in DRIVEN]
    pairs = [pairs[0] - 1, *pairs]

    def overtaken(number: int) -> str | None:
        first, second = scene.forks
        at = pairs[number]
        lake, marks = scene.lake(job, f"overtaken-{job}-{at}"), scene.scratch / f"marks-{job}-{at}"
        marks.mkdir()
        ended: list[Ended] = []
        pause = Happening("pause", at=at + 1, signals=str(marks))
        late = threading.Thread(
            target=lambda: ended.append(first.run(Turn(str(lake), scene.source, (job,), "late", pause)))
        )
        late.start()
        wait_for(marks / "paused")
        (lake / "lease.json").unlink(missing_ok=True)  # another holds another file now
        winner = second.run(Turn(str(lake), scene.source, run_id="winner"))
        (marks / "go-on").touch()
        late.join()
        where = f"{job} went on at effect {at + 1}, {known[at]}, after another run had done its work:"
        if winner.code != 0:
            return f"{where} that run ended with {winner.code}: {winner.said[-1000:]}"
        said = scene.difference(second.run(Turn(str(lake), scene.source, run_id="after", look_first=True)))
        shutil.rmtree(lake, ignore_errors=True)
        return said and f"{where} the late one ended with {ended[0].code} ({ended[0].said[-300:]}); {said}"

    wrong = [said for said in map(overtaken, range(len(pairs))) if said]
    assert not wrong, "\n".join(wrong)
