"""Which engine runs the tasks: what is requested, else a cluster, else by the size of the job."""

from __future__ import annotations

import pytest

from spark_jobs.errors import JobError, UsageError
from spark_jobs.machine import java
from spark_jobs.machine.engine import JobEngine, chosen_engine

GIB = 1 << 30


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with Java where nothing is set."""
    for name in ("LOGLAKE_JOB_ENGINE", "LOGLAKE_SPARK_MASTER", "LOGLAKE_SPARK_FROM_GIB"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(java, "find_java", lambda: None)


@pytest.mark.parametrize("task_bytes", [0, GIB, 1000 * GIB])
@pytest.mark.parametrize("engine", ["local", "spark"])
def test_what_is_requested_fixes_the_engine_of_every_job_however_small_or_large(monkeypatch, engine, task_bytes):
    assert chosen_engine(engine, task_bytes) == (engine, "as requested")
    monkeypatch.setenv("LOGLAKE_JOB_ENGINE", engine)
    assert chosen_engine(None, task_bytes) == (engine, "as LOGLAKE_JOB_ENGINE requests")


def test_a_cluster_gets_every_job(monkeypatch):
    monkeypatch.setenv("LOGLAKE_SPARK_MASTER", "spark://master:7077")
    assert chosen_engine("auto", 1) == (JobEngine.SPARK, "LOGLAKE_SPARK_MASTER names a cluster")


def test_without_a_cluster_a_job_is_by_spark_where_ten_times_its_start_of_eight_seconds_passes():
    # A GiB takes 8.4 s, so 80 s are 9.52 GiB.
    assert chosen_engine(None, int(9.5 * GIB))[0] is JobEngine.LOCAL
    assert chosen_engine(None, int(9.6 * GIB)) == (
        JobEngine.SPARK,
        "the tasks read 9.6 GiB, and from 9.5 GiB on the start of Spark is small",
    )


def test_one_setting_changes_the_size(monkeypatch):
    monkeypatch.setenv("LOGLAKE_SPARK_FROM_GIB", "0.5")
    assert chosen_engine(None, GIB)[0] is JobEngine.SPARK
    monkeypatch.setenv("LOGLAKE_SPARK_FROM_GIB", "inf")
    assert chosen_engine(None, 1000 * GIB)[0] is JobEngine.LOCAL
    monkeypatch.setenv("LOGLAKE_SPARK_FROM_GIB", "ten")
    with pytest.raises(UsageError, match="LOGLAKE_SPARK_FROM_GIB 'ten': use a number of GiB"):
        chosen_engine(None, 0)


def test_a_large_job_without_a_usable_java_is_local_and_says_so(monkeypatch):
    def find_java() -> None:
        raise JobError("no Java")

    monkeypatch.setattr(java, "find_java", find_java)
    assert chosen_engine(None, 10 * GIB) == (
        JobEngine.LOCAL,
        "Spark is used from 9.5 GiB on, but there is no usable Java",
    )
