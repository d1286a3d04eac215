"""Every job leaves the same lake in one process, in worker processes and on Spark: other tests rely on it."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from spark_jobs import launch
from spark_jobs.contracts import CONFIGS, JobReport
from spark_jobs.engine import job_engine
from spark_jobs.engine.executor import Executor
from spark_jobs.engine.local_executor import LocalExecutor
from spark_jobs.engine.session import get_session
from spark_jobs.engine.spark_executor import SparkExecutor
from tests import handmade
from tests.broker_directory import OTHER_TOPIC_ID, LogDirectory
from tests.crash import visible
from tests.in_process import InProcessExecutor
from tests.spark.archived import append_segment, files
from tests.spark.cycle import AS_OF_MS

pytestmark = pytest.mark.spark

POLICIES = """
topics:
  orders: {cleanup.policy: delete, retention.ms: 1, file.delete.delay.ms: 0, decode.value: string, latest: delete}
  customers: {cleanup.policy: compact, segment.bytes: 2000, compaction.spread.bytes: %d}
"""
THIRD_TOPIC_ID = "DDDDDDDDDDDDDDDDDDDDDA"
GROUPS_TOPIC_ID = "EEEEEEEEEEEEEEEEEEEEEA"
TRANSACTIONAL = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0}


def committed_offset() -> tuple[bytes, bytes]:
    """A record of `__consumer_offsets`, by OffsetCommitKey 1 and OffsetCommitValue 3."""
    key = struct.pack(">hh7sh6si", 1, 7, b"readers", 6, b"orders", 0)
    return key, struct.pack(">hqihq", 3, 4, -1, 0, AS_OF_MS)


def write(source: LogDirectory) -> None:
    """orders: segments with an aborted transaction and a damaged batch; customers: keys that come again."""
    orders, customers = source.partition("orders-0"), source.partition("customers-0", OTHER_TOPIC_ID)
    append_segment(orders, [(b"k", b"old")] * 10, 1_700_000_001_000)
    append_segment(orders, [(b"k%d" % number, b"v") for number in range(10)], AS_OF_MS)
    orders.append(5, **TRANSACTIONAL, base_sequence=0)
    orders.marker(7, handmade.ABORT)
    orders.roll()
    orders.append(10)
    for _ in range(3):
        customers.roll()
        customers.append(12, per_batch=4)
    damaged = bytearray(orders.segments()[-1].read_bytes())
    damaged[100] ^= 1
    orders.segments()[-1].write_bytes(damaged)
    groups = source.partition("__consumer_offsets-0", GROUPS_TOPIC_ID)
    append_segment(groups, [committed_offset()], AS_OF_MS)
    source.high_watermarks(
        orders_0=orders.next_offset,
        customers_0=customers.next_offset,
        __consumer_offsets_0=groups.next_offset,
    )


@dataclass
class Counted:
    """An executor, and how many tasks it has run."""

    executor: Executor
    tasks: int = 0

    def run(self, *arguments: Any) -> Sequence[Any]:
        results = self.executor.run(*arguments)
        self.tasks += len(results)
        return results


class CountedOnSpark(Counted):
    """The same with a shuffle of its own."""

    def shuffle(self, *arguments: Any) -> Sequence[Any]:
        results: Sequence[Any] = self.executor.shuffle(*arguments)  # type: ignore[attr-defined]
        self.tasks += len(results)
        return results


@dataclass
class Lake:
    """A lake, what runs its tasks, and what the jobs said."""

    folder: Path
    executor: Counted
    reports: list[JobReport] = field(default_factory=list)
    on_workers: set[str] = field(default_factory=set)
    tables: dict[str, list[str]] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return self.folder / "lake"

    def do(self, job: str, **options: Any) -> None:
        before = self.executor.tasks
        plain = {"lake": str(self.path), "run_id": f"run-{len(self.reports)}", "as_of_ms": AS_OF_MS}
        self.reports.append(launch.run(CONFIGS[job].from_dict(plain | options)))
        if self.executor.tasks > before:
            self.on_workers.add(job)


def started(counted: Counted, _lake: str, _engine: str, job: str) -> Counted:
    """The executor of a job."""
    if isinstance(counted.executor, SparkExecutor):
        counted.executor = replace(counted.executor, job=job)
    return counted


def spark_jobs_of(job: str) -> set[int]:
    """Spark's jobs that had tasks of a job in this session."""
    return set(get_session().sparkContext.statusTracker().getJobIdsForGroup(job))


def live_through_all_jobs(lake: Lake, source: Path) -> None:
    """Take in, publish, look, lose rows and put them back, merge, clean, tidy up, give back."""
    whole, spread = (lake.folder / name for name in ("whole.yaml", "spread.yaml"))
    whole.write_text(POLICIES % 1_000_000)
    spread.write_text(POLICIES % 0)
    payments = LogDirectory(source, cluster=None).partition("payments-0", THIRD_TOPIC_ID)
    for last in (False, True):  # payments comes in two slices of one segment
        payments.append(5)
        if last:
            payments.roll()
            payments.append(1)
        for file in payments.path.iterdir():
            os.utime(file, (AS_OF_MS / 1000,) * 2)  # the table segments has the file's time
        lake.do("ingest", sources=[str(source)])
        lake.do("validate")
        lake.do("publish", isolation_level="read_uncommitted")
    logs = sorted(row["log"] for row in visible.rows(lake.path, "logs"))
    lake.do("expectations", ranges=dict.fromkeys(logs, (0, 10)))
    lake.do("decode", policies=str(whole))
    lake.do("latest", policies=str(whole))
    lake.do("cluster", sources=[str(source)])
    assert len(visible.rows(lake.path, "cluster_offset_commits")) == 1
    lake.do("verify")
    DeltaTable(str(lake.path / "tables" / "records")).delete("topic = 'orders' AND \"offset\" = 4")
    lake.do("check_foreign_rows")
    lake.do("replace", start_offset=0)
    lake.do("optimize", apply=True)
    lake.do("compaction", policies=str(whole), apply=True)
    lake.do("compaction", policies=str(spread), apply=True)
    lake.do("retention", policies=str(whole), apply=True)
    lake.do("rebuild_indexes", policies=str(whole))
    lake.do("tidy_archive", policies=str(whole), apply=True, force=True, orphan_after_ms=0)
    lake.do("recover", out=str(lake.folder / "out"), apply=True)


def test_every_job_leaves_the_same_in_one_process_in_worker_processes_and_on_spark(tmp_path, monkeypatch, request):
    monkeypatch.setattr(job_engine, "IN_PROCESS_BYTES", {})
    original, place = tmp_path / "original", tmp_path / "place"  # one place for both: lakes remember where they are
    write(LogDirectory(original))
    lakes = []
    before = {job: spark_jobs_of(job) for job in CONFIGS}
    workers = LocalExecutor(2)
    request.addfinalizer(workers.stop)
    executors = {"process": InProcessExecutor(), "workers": workers, "spark": SparkExecutor(get_session())}
    for name, executor in executors.items():
        place.mkdir()
        shutil.copytree(original, place / "source")
        lake = Lake(place, (CountedOnSpark if name == "spark" else Counted)(executor))
        monkeypatch.setattr(launch, "start_executor", partial(started, lake.executor))
        live_through_all_jobs(lake, place / "source")
        lake.tables = visible.tables(lake.path)
        lake.folder = place.rename(tmp_path / name)
        lakes.append(lake)
    one = lakes[0]
    assert {report.job for report in one.reports} == set(CONFIGS)
    assert one.on_workers == set(CONFIGS)
    assert {job for job in CONFIGS if spark_jobs_of(job) - before[job]} == one.on_workers
    assert one.tables["quarantine"]
    assert one.tables["records_uncommitted"]
    assert one.tables["decoded/orders"]
    assert one.tables["latest/orders"]
    for other in lakes[1:]:
        assert other.on_workers == one.on_workers
        for mine, theirs in zip(one.reports, other.reports, strict=True):
            # File names are random, and in the tables.
            sizes = dict.fromkeys(("table_bytes", "merged_bytes", "written_bytes"))
            assert dict(mine.metrics) | sizes == dict(theirs.metrics) | sizes, mine.job
            assert mine.changed == theirs.changed, mine.job
            assert mine.used_executor == theirs.used_executor, mine.job
        assert one.tables == other.tables
        for part in ("lake/archive", "out"):
            assert files(one.folder / part) == files(other.folder / part)
            assert files(one.folder / part)
