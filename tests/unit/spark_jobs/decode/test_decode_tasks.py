"""How the rows of a file are spread over tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from spark_jobs.decode.decode_task import DecodeTask
from spark_jobs.decode.decoding import Format, TopicFormats
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.published.published_rows import Span
from spark_jobs.policies.compression import Compression

GROUP = 65_536
MOST = 4 * GROUP


def a_task() -> DecodeTask:
    formats = TopicFormats(Format(), Format())
    return DecodeTask("lake", Span("orders", "x", 0, 0, 1 << 62), 0, formats, Compression(), ())


def a_file(rows: int, first: int = 0) -> LiveFile:
    log: dict[str, Any] = {"log_id": "x", "partition": 0}
    bounds = {**log, "offset": first}, {**log, "offset": first + rows - 1}
    return LiveFile("f", rows, rows, {"topic": "orders"}, *bounds)


@pytest.mark.parametrize("first", [0, 1_000])
@pytest.mark.parametrize("rows", [MOST + 1, 5 * GROUP, 518_000, 2_080_000, 8 * MOST])
def test_tasks_of_a_large_file_begin_at_row_groups_and_cover_it_once(rows: int, first: int) -> None:
    tasks = a_task().over([a_file(rows, first)], 1 << 40, MOST)
    assert len(tasks) == -(-rows // MOST)
    assert [(task.span.start - first) % GROUP for task in tasks] == [0] * len(tasks)
    assert [task.span.start for task in tasks] == [first, *(task.span.end for task in tasks[:-1])]
    assert tasks[-1].span.end == first + rows
    assert all(task.span.end - task.span.start <= MOST for task in tasks)


def test_tasks_that_are_smaller_than_a_row_group_share_the_rows_evenly() -> None:
    tasks = a_task().over([a_file(1_000)], 1 << 40, 300)
    assert [task.span.end - task.span.start for task in tasks] == [250] * 4


def test_tasks_that_begin_inside_of_a_file_share_the_rest_evenly() -> None:
    tasks = replace(a_task(), span=Span("orders", "x", 0, 100, 1 << 62)).over([a_file(600_100)], 1 << 40, MOST)
    assert [task.span.end - task.span.start for task in tasks] == [200_000] * 3
