"""Tasks as rows: small ones share a part, large ones have their own, and none is left out or done twice."""

from __future__ import annotations

import operator
import pickle
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

from spark_jobs.engine.spark_executor import SparkExecutor, perform_rows, results_of, task_table
from spark_jobs.engine.task_groups import SHARED_BYTES, SHARED_TASKS, shared
from spark_jobs.reads import Reads


@given(st.lists(st.integers(0, 2 * SHARED_BYTES), max_size=400), st.integers(1, 32))
def test_groups_hold_every_task_once_in_order_and_no_more_than_may_share(sizes, least):
    groups = shared(len(sizes), sizes, least)
    assert [at for group in groups for at in group] == list(range(len(sizes)))
    assert len(groups) >= min(least, len(sizes)) // 2
    for group in groups:
        assert 0 < len(group) <= SHARED_TASKS
        assert len(group) == 1 or sum(sizes[at] for at in group) <= SHARED_BYTES


def test_ten_thousand_small_tasks_are_a_hundred_of_sparks():
    assert len(shared(10_000, [1000] * 10_000, 8)) == 100


def test_without_sizes_each_task_is_one_of_sparks():
    assert [list(group) for group in shared(3, None)] == [[0], [1], [2]]


@pytest.mark.parametrize("count", [8, 16, 100])
def test_there_are_as_many_groups_as_the_cores_want_if_there_are_so_many_tasks(count):
    groups = shared(count, [1 << 20] * count, 8)
    assert len(groups) >= 8
    assert max(map(len, groups)) - min(map(len, groups)) <= count // 8


@dataclass(frozen=True)
class Range:
    """A task with a place."""

    start: int

    @property
    def reads(self) -> Reads:
        return Reads("orders-0", "/log/0.log", self.start, self.start + 5)


def test_a_row_says_in_typed_columns_what_its_task_reads():
    table, parts = task_table("ingest", [Range(0), Range(5)], [5, 7], 8)
    assert parts == 2
    names = ("position", "job", "what", "path", "start", "end", "size", "part")
    assert [tuple(row[name] for name in names) for row in table.to_pylist()] == [
        (0, "ingest", "orders-0", "/log/0.log", 0, 5, 5, 1),
        (1, "ingest", "orders-0", "/log/0.log", 5, 10, 7, 0),
    ]
    assert table.schema.field("start").type == pa.int64()


def test_a_task_that_says_nothing_has_the_name_of_its_type():
    table, _ = task_table("ingest", [b"x"], None, 8)
    [row] = table.to_pylist()
    assert (row["what"], row["path"], row["start"], row["end"], row["size"]) == ("bytes", None, None, None, None)


def test_the_results_of_rows_are_in_the_order_of_the_tasks_however_parts_end():
    table, parts = task_table("ingest", [Range(number) for number in range(50)], list(range(50)), 8)
    work = pickle.dumps(operator.attrgetter("start"))
    of_parts = [table.filter(pa.compute.equal(table["part"], part)).to_batches() for part in range(parts)]
    done = [batch for batches in reversed(of_parts) for batch in perform_rows(work, iter(batches))]
    assert results_of(pa.Table.from_batches(done)) == list(range(50))


@pytest.mark.parametrize("sizes", [None, [1 << 20] * 5000])
def test_the_partitions_of_five_thousand_tasks_of_36_kib_are_messages_of_about_four_mib(sizes):
    tasks = [bytes(36 << 10)] * 5000
    table, _ = task_table("ingest", tasks, sizes, 8)
    of_partitions = table.to_batches(max_chunksize=10_000)  # as pyspark cuts a table: a partition for each batch
    sent = [sum(len(task.as_buffer()) for task in batch.column("task")) for batch in of_partitions]
    assert sum(sent) > 5000 * (36 << 10)
    assert max(sent) < 5 << 20
    assert min(sent[:-1]) >= 4 << 20
    assert table["position"].to_pylist() == list(range(5000))


@pytest.mark.parametrize(
    ("count", "nbytes", "jobs"), [(5000, 36 << 10, [3637, 1363]), (25_000, 1, [10_000, 10_000, 5000])]
)
def test_very_many_tasks_are_several_spark_jobs_and_their_results_are_in_order(count, nbytes, jobs):
    session = Recorded()
    tasks = [number.to_bytes(4, "big") + bytes(nbytes) for number in range(count)]
    done = SparkExecutor(session, "ingest").run(operator.itemgetter(slice(4)), tasks, [nbytes] * count)
    assert [int.from_bytes(number, "big") for number in done] == list(range(count))
    assert session.tasks == pytest.approx(jobs, abs=10)
    assert sum(session.tasks) == count


class Recorded:
    """A session and its DataFrames: the functions that they send to workers."""

    def __init__(self) -> None:
        self.defaultParallelism = 2
        self.sent: list[bytes] = []
        self.tasks: list[int] = []

    @property
    def sparkContext(self) -> Recorded:  # noqa: N802
        return self

    def setJobGroup(self, *_: object) -> None:  # noqa: N802
        """As of SparkContext."""

    def setLocalProperty(self, *_: object) -> None:  # noqa: N802
        """As of SparkContext."""

    def createDataFrame(self, table: pa.Table) -> Recorded:  # noqa: N802
        self.table = table
        self.tasks.append(len(table))
        return self

    def repartitionById(self, *_: object) -> Recorded:  # noqa: N802
        return self

    def mapInArrow(self, function: object, _: str) -> Recorded:  # noqa: N802
        self.sent.append(cloudpickle.dumps(function))
        self.function = function
        return self

    def toArrow(self) -> pa.Table:  # noqa: N802
        return pa.Table.from_batches(self.function(iter(self.table.to_batches())))


def test_what_spark_sends_with_every_task_is_as_small_for_ten_thousand_tasks_as_for_ten():
    session = Recorded()
    executor = SparkExecutor(session, "ingest")
    for count in (10, 10_000):
        tasks = [Range(number) for number in range(count)]
        assert executor.run(partial(getattr, Range(3)), ["start"] * count, [1] * count) == [3] * count
        assert executor.run(operator.attrgetter("start"), tasks, [1] * count) == list(range(count))
    assert len(session.sent[0]) == len(session.sent[2]) < 1000
    assert len(session.sent[1]) == len(session.sent[3]) < 1000
