"""Where the tasks of a log end at a schema: the log ends before that row, or waits if files overlap there."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.contracts import DecodeConfig
from spark_jobs.decode.decode_job import DecodedTopicPlan, _Made
from spark_jobs.decode.decode_task import DecodeResult, DecodeTask
from spark_jobs.decode.decoding import Format, TopicFormats
from spark_jobs.decode.split_rows import SchemaStop
from spark_jobs.following.topic_plan import LogSpan
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.published.published_rows import Span
from spark_jobs.policies.compression import Compression

END = 20


def a_task(*files: tuple[int | None, int]) -> DecodeTask:
    """A task with files of these first and last offsets."""
    live = []
    for least, greatest in files:
        bounds: dict[str, Any] = {} if least is None else {"offset": least}
        live.append(LiveFile("f", 1, 1, {"topic": "orders"}, bounds, {"offset": greatest}))
    formats = TopicFormats(Format(), Format())
    return DecodeTask("lake", Span("orders", "x", 0, 0, END), 0, formats, Compression(), tuple(live))


def made(*tasks: tuple[DecodeTask, int | None]) -> _Made:
    """What tasks with their stops come to."""
    results = [DecodeResult(rows=1, stop=None if stop is None else SchemaStop(stop, "why")) for _, stop in tasks]
    span = LogSpan("orders", "x", 0, 0, END, {})
    config = DecodeConfig("lake", "run", 0)
    return _Made.of(config, DecodedTopicPlan("orders", (span,), tuple(task for task, _ in tasks)), results)


@pytest.mark.parametrize(
    "tasks",
    [
        [(a_task((0, 9), (10, 19)), 7)],
        [(a_task((0, 9)), 7), (a_task((10, 19)), None)],
        [(a_task((0, 6)), None), (a_task((7, 19)), 7)],
        [(a_task((0, 9)), 7), (a_task((10, 19)), 12)],
    ],
)
def test_a_log_without_overlaps_ends_before_its_first_stop(tasks):
    found = made(*tasks)
    assert [log.span.end for log in found.logs] == [7]
    assert found.problems == []
    assert found.stopped[0].startswith("partition 0 waits at offset 7: why.")


@pytest.mark.parametrize(
    "tasks",
    [
        [(a_task((0, 9), (5, 19)), 7)],
        [(a_task((0, 9), (None, 19)), 7)],
        [(a_task((0, 9)), None), (a_task((5, 19)), 7)],
        [(a_task((0, 9)), 9), (a_task((5, 19)), 7)],
    ],
    ids=["files of a task", "unknown offsets", "a task that passes the stop", "a task that stops later"],
)
def test_a_log_whose_files_overlap_at_a_stop_waits_and_commits_nothing(tasks):
    found = made(*tasks)
    assert found.logs == []
    assert found.stopped == []
    assert found.problems == ["partition 0 waits: files overlap at offset 7, where why"]
