"""A round takes copies in the order of the plan while they fit, at least one, and says what it leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_jobs.ingest.ingest_job import Left, first_round
from spark_jobs.ingest.log_growth import IngestLogPlan
from spark_jobs.ingest.segment_copy import CopyTask
from spark_jobs.ingest.segment_slices import SliceCopy, Swap
from spark_jobs.lake.segments.archive import LogRow

MIB = 1 << 20
TASK = CopyTask("lake", "", "", "", 0, "file", 0, 0, 0, True, None, 0, 0, False)


def plan_of(name: str, *sizes: int, swapped: tuple[int, ...] = ()) -> IngestLogPlan:
    row = LogRow(name, name, name, 0, 0, None, None, "", 0, 0, 0, None, "[]", None, "[]", 0, None, None, None)
    parts = tuple(SliceCopy(replace(TASK, end=size)) for size in swapped)
    cut = Swap((), "cut-back", parts, ()) if parts else None
    return IngestLogPlan(row, tuple(replace(TASK, size=size) for size in sizes), None, cut=cut)


def taken(plans: list[IngestLogPlan], max_bytes: int | None, max_tasks: int | None) -> list[tuple[str, list[int]]]:
    kept, _ = first_round(plans, max_bytes, max_tasks)
    return [(plan.observed.log, [task.bytes_to_read for task in plan.copies]) for plan in kept]


def test_without_a_limit_everything_is_taken():
    plans = [plan_of("a", 1 << 40), plan_of("b", *[1 << 30] * 2000)]
    assert first_round(plans, None, None) == (plans, Left())


def test_copies_are_taken_in_order_while_their_bytes_fit():
    plans = [plan_of("a", 40, 40), plan_of("b", 30, 1), plan_of("c", 1)]
    assert taken(plans, 100, None) == [("a", [40, 40])], "what is smaller does not overtake"
    assert taken(plans, 110, None) == [("a", [40, 40]), ("b", [30])]
    assert taken(plans, 112, None) == [("a", [40, 40]), ("b", [30, 1]), ("c", [1])]
    _, left = first_round(plans, 110, None)
    assert left == Left(2, 2, ("b-0", "c-0"))


def test_the_first_copy_is_taken_whatever_its_size():
    assert taken([plan_of("a", 500, 1)], 100, None) == [("a", [500])]


def test_large_copies_are_a_task_each_and_small_ones_share_one():
    assert taken([plan_of("a", *[17 * MIB] * 5)], None, 3) == [("a", [17 * MIB] * 3)]
    assert taken([plan_of("a", *[1] * 250)], None, 2) == [("a", [1] * 200)]
    assert taken([plan_of("a", *[4 * MIB] * 10)], None, 2) == [("a", [4 * MIB] * 8)]


def test_what_is_swapped_is_taken_together_and_before_the_growth_of_its_log():
    plan = plan_of("a", 10, 10, swapped=(30, 30))
    assert taken([plan], 1, None) == [("a", [30, 30])]
    assert taken([plan], 70, None) == [("a", [30, 30, 10])]
    assert taken([plan_of("b", 1), plan], 60, None) == [("b", [1])]


def test_logs_without_copies_are_taken_though_the_round_is_full():
    assert taken([plan_of("a", 10, 10), plan_of("b")], 10, None) == [("a", [10]), ("b", [])]


@pytest.mark.parametrize(("max_bytes", "waits"), [(10, True), (20, False)])
def test_a_log_that_is_not_taken_whole_is_known_to_wait(max_bytes, waits):
    (plan,), _ = first_round([plan_of("a", 10, 10)], max_bytes, None)
    assert plan.waits is waits
