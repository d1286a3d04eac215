"""The search for rows that end workers: how often it tries, and when it ends without an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from spark_jobs.decode.decode_job import MOST_AT_ONCE, surviving_results
from spark_jobs.decode.decode_task import DecodeResult, DecodeTask
from spark_jobs.decode.decoding import Format, TopicFormats
from spark_jobs.engine.executor import WorkerDied
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.published.published_rows import Span
from spark_jobs.policies.compression import Compression

ROWS = 262_144


def a_task(partition: int = 0, rows: int = ROWS, first: int = 0) -> DecodeTask:
    values = {"topic": "orders"}
    log: dict[str, Any] = {"log_id": "x", "partition": partition}
    file = LiveFile("f", rows, rows, values, {**log, "offset": first}, {**log, "offset": first + rows - 1})
    formats = TopicFormats(Format(), Format())
    return DecodeTask("lake", Span("orders", "x", partition, 0, 1 << 62), 0, formats, Compression(), (file,))


class Counted:
    """An executor whose workers die of tasks that have a deadly offset which is not given up."""

    def __init__(self, deadly: Callable[[DecodeTask], set[int]]) -> None:
        self.deadly = deadly
        self.runs: list[int] = []

    def run(self, work: Any, tasks: Sequence[Any], sizes: Sequence[int] | None = None) -> list[Any]:
        self.runs.append(len(tasks))
        assert sizes is not None
        assert len(sizes) == len(tasks)
        results, died = {}, {}
        for at, task in enumerate(tasks):
            start, end = task.offsets
            if any(start <= offset < end for offset in self.deadly(task) - {offset for offset, _ in task.given_up}):
                died[at] = "died"
            else:
                results[at] = DecodeResult(rows=end - start - len(task.given_up), reasons=dict.fromkeys("r", 1))
        if died:
            raise WorkerDied("died", died, results)
        return [results[at] for at in range(len(tasks))]


def never(task: DecodeTask) -> DecodeResult:
    raise AssertionError(task)


@pytest.mark.parametrize("offset", [0, 1, 131_071, 131_072, 200_003, ROWS - 1])
def test_one_deadly_row_of_a_full_task_is_found_in_eighteen_halvings(offset):
    executor = Counted(lambda _: {offset})
    (result,) = surviving_results(executor, never, [a_task()])
    assert result.error is None
    assert result.rows == ROWS - 1
    assert executor.runs == [1, *[2] * 18, 1]


def test_offsets_without_rows_at_both_ends_are_not_searched():
    executor = Counted(lambda _: {(1 << 40) + 1})
    (result,) = surviving_results(executor, never, [a_task(rows=4, first=1 << 40)])
    assert result.rows == 3
    assert executor.runs == [1, 2, 2, 1]


def test_a_worker_that_dies_of_everything_is_tried_a_bounded_number_of_times():
    executor = Counted(lambda task: set(range(*task.offsets)))
    results = surviving_results(executor, never, [a_task(partition, 256) for partition in range(40)])
    assert all("more than 16 at a time are not tried again" in str(each.error) for each in results)
    assert executor.runs[0] == 40
    assert sum(executor.runs[1:]) <= 2 * MOST_AT_ONCE * 8


def test_as_many_deadly_rows_as_are_halved_at_a_time_are_found_in_each_run():
    deadly = set(range(0, 1600, 100))
    assert len(deadly) == MOST_AT_ONCE
    (result,) = surviving_results(Counted(lambda _: deadly), never, [a_task(rows=2000)])
    assert (result.error, result.rows) == (None, 2000 - MOST_AT_ONCE)
    (result,) = surviving_results(Counted(lambda _: {*deadly, 1700}), never, [a_task(rows=2000)])
    assert "more than 16" in str(result.error)


def test_a_task_beyond_the_bound_waits_and_the_first_ones_are_decoded():
    executor = Counted(lambda _: {3})
    results = surviving_results(executor, never, [a_task(partition, 8) for partition in range(20)])
    assert [each.error is None for each in results] == [True] * 16 + [False] * 4
    assert all(each.rows == 7 for each in results[:16])


def test_a_task_of_which_no_worker_died_has_its_own_result():
    executor = Counted(lambda task: {2} if task.span.partition else set())
    results = surviving_results(executor, never, [a_task(0, 4), a_task(1, 4)])
    assert [each.rows for each in results] == [4, 3]
    assert [each.was_plain for each in results] == [False, True]


def test_reasons_of_the_parts_are_added():
    (result,) = surviving_results(Counted(lambda _: {2}), never, [a_task(rows=4)])
    assert result.reasons == {"r": 3}  # of offsets 0 and 1, 2, and 3
