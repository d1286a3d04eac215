"""Tasks and results on their way to Spark's workers and back: as they are, in order, however many share a task."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from logcore.logs.compaction.cleaning_round import SourceSegment
from logcore.segments.side_files.transaction_index import AbortedTransaction
from spark_jobs.engine.session import get_session
from spark_jobs.errors import JobError
from spark_jobs.launch import start_executor

pytestmark = pytest.mark.spark


def task(number: int) -> SourceSegment:
    """A dataclass with bytes, tuples, dataclasses and None in it."""
    aborted = (AbortedTransaction(number, 1, 2, 3),)
    return SourceSegment(number, number + 1, bytes([0, 255, number]), 5, 0, 0, aborted, unreadable=((1, 2),))


@pytest.mark.long
@pytest.mark.parametrize("sizes", [None, [1] * 250])
def test_dataclasses_with_bytes_come_back_in_order_with_what_all_tasks_share(tmp_path, sizes):
    tasks = [task(number) for number in range(250)]
    done = start_executor(str(tmp_path)).run(partial(replace, dirty_position=7), tasks, sizes)
    assert [each.held for each in done] == [bytes([0, 255, number]) for number in range(250)]
    assert {(type(each), each.dirty_position, each.unreadable) for each in done} == {(SourceSegment, 7, ((1, 2),))}
    assert [each.aborted[0].producer_id for each in done] == list(range(250))


def test_no_task_starts_nothing(tmp_path):
    assert start_executor(str(tmp_path)).run(bytes.upper, []) == []


def test_an_error_out_of_the_work_ends_the_job(tmp_path):
    with pytest.raises(JobError, match=r"Spark could not finish the job's 2 tasks: .*not found"):
        start_executor(str(tmp_path)).run(partial(bytes.index, b"abc"), [b"a", b"x"])


def test_the_jobs_of_spark_have_the_name_of_the_job_and_more_parts_than_cores_where_it_has_the_tasks(source, lake):
    orders = source.partition("orders-0")
    for _ in range(40):
        orders.append(1)
        orders.roll()
    source.high_watermarks(orders_0=orders.next_offset)
    context = get_session().sparkContext
    spark = context.statusTracker()
    before = {job: set(spark.getJobIdsForGroup(job)) for job in ("ingest", "validate", "publish")}
    lake.turn(source.path)
    parts = {}
    for job, known in before.items():
        stages = [
            stage
            for number in spark.getJobIdsForGroup(job)
            if number not in known
            for stage in spark.getJobInfo(number).stageIds
        ]
        assert stages, job
        parts[job] = max(spark.getStageInfo(stage).numTasks for stage in stages)
    assert 4 * context.defaultParallelism <= parts["ingest"] <= 40
    assert context.getLocalProperty("spark.jobGroup.id") is None
