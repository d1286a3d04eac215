"""A commit that lands and is not confirmed, and work cut and ordered in other ways: the rows are the same."""

from __future__ import annotations

import errno
import shutil

import pytest

from tests.crash.forks import Forks, Turn
from tests.crash.side_effects import Happening

pytestmark = pytest.mark.crash


@pytest.mark.long
def test_a_lost_answer_to_any_commit_is_looked_for_and_nothing_is_written_twice(scene):
    tables = sorted({path for job in scene.journals.values() for kind, path, _ in job if kind == "committed"})
    assert {"tables/records", "tables/segments", "tables/offset_ledger", "tables/validations"} <= set(tables)

    def unanswered(forks: Forks, number: int) -> str | None:
        table = tables[number]
        lake = scene.lake("ingest", f"unanswered-{number}")
        cut_off = Happening("fail", named=f"committed {table}", errno=errno.ECONNRESET, once=True, signals=str(lake))
        lake.mkdir(exist_ok=True)
        first = forks.run(Turn(str(lake), scene.source, happening=cut_off))
        if not (lake / "happened").exists():
            return f"{table}: no answer was lost"
        if first.code != 0 and "run again" not in first.said:
            return f"{table}: {first.said[-500:]}"
        if table == "tables/records" and first.code != 0:
            return f"the same run did not find what it had published: {first.said[-500:]}"
        said = scene.difference(forks.run(Turn(str(lake), scene.source, look_first=True)))
        shutil.rmtree(lake, ignore_errors=True)
        return said and f"answer lost of {table}: {said}"

    wrong = scene.each(unanswered, len(tables))
    assert not wrong, "\n".join(wrong)


def test_however_work_is_cut_and_in_whatever_order_it_is_done_the_rows_are_the_same(scene):
    for seed, task_bytes in enumerate((1, 200, 1 << 30)):
        lake = scene.lake("ingest", f"cut-{task_bytes}")
        cut = {"spark_jobs.archived_rows.archived_bytes.TASK_BYTES": task_bytes}
        said = scene.difference(scene.forks[0].run(Turn(str(lake), scene.source, constants=cut, shuffled=seed)))
        assert said is None, f"tasks of {task_bytes} bytes, order {seed}: {said}"


def test_a_run_after_success_writes_no_version_of_any_table(scene):
    lake = scene.lake("ingest", "again")
    assert scene.forks[0].run(Turn(str(lake), scene.source)).code == 0
    before = sorted(lake.rglob("_delta_log/*.json"))
    again = scene.forks[0].run(Turn(str(lake), scene.source, run_id="again"))
    assert again.code == 0
    assert [report["changed"] for report in again.reports] == [0, 0, 0]
    assert sorted(lake.rglob("_delta_log/*.json")) == before
