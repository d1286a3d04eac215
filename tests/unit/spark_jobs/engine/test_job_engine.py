"""Which engine runs the tasks: what is requested, else a cluster, else by the size of the job."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from spark_jobs.engine import jars, java
from spark_jobs.engine.jars import LockedJar
from spark_jobs.engine.job_engine import JobEngine, chosen_engine, is_engine_requested
from spark_jobs.errors import JobError, UsageError

GIB = 1 << 30


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with Java and a jar where nothing is set; a download is an error."""
    for name in ("LOGLAKE_JOB_ENGINE", "LOGLAKE_SPARK_MASTER", "LOGLAKE_SPARK_FROM_GIB"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(java, "find_java", lambda: None)
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path))
    monkeypatch.delenv("LOGLAKE_JARS_DIR", raising=False)
    monkeypatch.setattr(jars, "locked_jars", lambda: (LockedJar("g:delta:1", hashlib.sha256(b"delta").hexdigest()),))
    monkeypatch.setattr(jars, "_fetch", forbidden)
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "delta-1.jar").write_bytes(b"delta")


def forbidden(_folder: Path) -> None:
    raise AssertionError("The size of a job downloads nothing.")


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
        "the tasks read 9.6 GiB, and Spark is used from 9.5 GiB on",
    )


def test_one_setting_changes_the_size(monkeypatch):
    monkeypatch.setenv("LOGLAKE_SPARK_FROM_GIB", "0.5")
    assert chosen_engine(None, GIB)[0] is JobEngine.SPARK
    monkeypatch.setenv("LOGLAKE_SPARK_FROM_GIB", "inf")
    assert chosen_engine(None, 1000 * GIB)[0] is JobEngine.LOCAL
    monkeypatch.setenv("LOGLAKE_SPARK_FROM_GIB", "0")
    assert chosen_engine(None, 0)[0] is JobEngine.SPARK
    assert is_engine_requested()


def test_what_dagster_starts_is_by_spark_whatever_its_size_unless_an_engine_is_named(monkeypatch):
    monkeypatch.setenv("LOGLAKE_SPARK_FROM_GIB", "inf")  # a rule of the command line
    for task_bytes in (0, 1000 * GIB):
        assert chosen_engine("auto", task_bytes, by_dagster=True) == (JobEngine.SPARK, "Dagster started the run")
    assert chosen_engine("local", GIB, by_dagster=True) == (JobEngine.LOCAL, "as requested")
    monkeypatch.setenv("LOGLAKE_JOB_ENGINE", "local")
    assert chosen_engine(None, GIB, by_dagster=True) == (JobEngine.LOCAL, "as LOGLAKE_JOB_ENGINE requests")


@pytest.mark.parametrize("said", ["local: no Spark cluster is configured", "spark: a: b"])
def test_later_jobs_of_a_run_get_the_engine_that_its_first_report_names_with_the_reason(monkeypatch, said):
    monkeypatch.setenv("LOGLAKE_JOB_ENGINE", "spark" if said.startswith("local") else "local")
    assert ": ".join(chosen_engine(said, 1000 * GIB)) == said


@pytest.mark.parametrize("given", ["ten", "nan", "-1"])
def test_what_is_no_size_is_refused(monkeypatch, given):
    monkeypatch.setenv("LOGLAKE_SPARK_FROM_GIB", given)
    with pytest.raises(UsageError, match=f"LOGLAKE_SPARK_FROM_GIB '{given}': use a number of GiB"):
        chosen_engine(None, 0)


def test_a_large_job_and_what_dagster_starts_are_local_without_a_usable_java_and_say_so(monkeypatch):
    def find_java() -> None:
        raise JobError("There is no Java.")

    monkeypatch.setattr(java, "find_java", find_java)
    assert chosen_engine(None, 10 * GIB) == (
        JobEngine.LOCAL,
        "Spark is used from 9.5 GiB on, but cannot start. There is no Java.",
    )
    assert chosen_engine(None, 0, by_dagster=True) == (
        JobEngine.LOCAL,
        "Spark is used for what Dagster starts, but cannot start. There is no Java.",
    )


@pytest.mark.parametrize(
    ("content", "lack"), [(None, r"delta-1\.jar is missing"), (b"other", r"delta-1\.jar is not the jar")]
)
@pytest.mark.parametrize("is_named", [False, True])
def test_a_large_job_without_the_jars_on_disk_is_local_names_the_jar_and_downloads_nothing(
    monkeypatch, tmp_path, content, lack, is_named
):
    jar = tmp_path / "jars" / "delta-1.jar"
    jar.unlink() if content is None else jar.write_bytes(content)
    if is_named:
        monkeypatch.setenv("LOGLAKE_JARS_DIR", str(jar.parent))
    engine, why = chosen_engine(None, 10 * GIB)
    assert engine is JobEngine.LOCAL
    assert re.search(lack, why)
