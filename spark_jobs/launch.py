"""How a job is started: plan first; an empty plan starts no JVM; one Spark session serves every job of a process.

``inprocess`` runs here, ``subprocess`` runs ``python -m spark_jobs`` with the same configuration, which is also what is
submitted to a cluster.
"""

from __future__ import annotations

import contextlib
import importlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Protocol

from spark_jobs.contracts import CONFIGS, JobConfig, JobReport
from spark_jobs.lake.delta import table_features
from spark_jobs.lake.errors import ConcurrentChange, JobError, UsageError, said
from spark_jobs.lake.setup import identity
from spark_jobs.lake.store.lease import hold
from spark_jobs.tasks.executor import Executor

PLAN_ATTEMPTS = 3
"""How often a job looks again after another commit overtook its plan."""

WITHOUT_LEASE = frozenset({"verify"})
"""Jobs that only read, and so long that other runs must not wait for them."""
REWRITES_RECORDS = ("replace", "optimize")
"""Jobs that take files of ``records`` away."""


class Plan(Protocol):
    """What every job's plan can say of itself."""

    @property
    def is_empty(self) -> bool: ...

    @property
    def needs_spark(self) -> bool: ...

    def as_dict(self) -> dict[str, Any]: ...


def plan(config: JobConfig) -> Plan:
    """The plan of a job: a value that one can print; makes no JVM.

    Raises:
        TableRefused: a table is of a kind that the job does not work on.
    """
    table_features.refuse_unsupported(config.lake, rewrites=config.JOB in REWRITES_RECORDS)
    made: Plan = _job(config.JOB).plan(config)
    return made


def check_engine() -> None:
    """Whether Spark could start here; 0.1 s.

    Raises:
        JobError: there is no usable Java; the text says what to install.
    """
    from spark_jobs.machine.java import find_java

    find_java()


def run(job: str, config: JobConfig, *, mode: str = "inprocess") -> JobReport:
    """Run one job to its end.

    Args:
        mode: ``inprocess`` or ``subprocess``.

    Raises:
        LeaseHeld: another process works on the lake.
        TableRefused: another engine made a table into what the job does not work on; nothing was written.
        ConcurrentChange: other commits kept overtaking the plan.
        JobError: anything else that kept the job from its work.
        UsageError: no such job or mode.
    """
    if job not in CONFIGS or job != config.JOB:
        raise UsageError(f"no job {job!r} with a {type(config).__name__}; the jobs are {', '.join(CONFIGS)}.")
    if mode == "subprocess":
        return _run_subprocess(config)
    if mode != "inprocess":
        raise UsageError(f"launch mode {mode!r}: use inprocess or subprocess.")
    try:
        identity.read_identity(config.lake)  # refuses a layout that this version would damage
        with contextlib.nullcontext() if job in WITHOUT_LEASE else hold(config.lake, job):
            return _run_planned(config)
    except JobError:
        raise
    except OSError as error:
        # Faults of a source's files are findings of their log: this one is the lake's.
        raise JobError(
            f"The job {job} could not go on in the lake {config.lake}: {said(error)} What was written before "
            "is kept; remove the cause and run again."
        ) from error


def _run_planned(config: JobConfig) -> JobReport:
    for attempt in range(PLAN_ATTEMPTS):
        try:
            return _run_once(config)
        except ConcurrentChange:
            if attempt == PLAN_ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def _run_once(config: JobConfig) -> JobReport:
    job = _job(config.JOB)
    made = plan(config)
    if made.is_empty:
        return JobReport(config.JOB, config.run_id, config.lake, plan=made.as_dict())
    if not made.needs_spark:
        report: JobReport = job.apply(made, config, None)
        return report
    executor = start_executor(config.lake)
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        report = job.apply(made, config, executor)
    except (PySparkException, Py4JError) as error:
        # Workers handle the faults of their input; what gets here is a fault of the machine or of this program.
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise JobError(f"Spark could not finish the job {config.JOB}: {said[-1]}") from error
    return report


def start_executor(lake: str) -> Executor:
    """What runs the tasks of a job: Spark, with the one session of this process."""
    from spark_jobs.machine.session import get_session
    from spark_jobs.tasks.spark_executor import SparkExecutor

    return SparkExecutor(get_session(lake))


def _run_subprocess(config: JobConfig) -> JobReport:
    with tempfile.TemporaryDirectory(prefix="loglake-") as scratch:
        path = Path(scratch, "config.json")
        path.write_text(config.to_json(), encoding="utf-8")
        command = [sys.executable, "-m", "spark_jobs", config.JOB, "--config", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    # A report is printed whatever it found; without one the job did not run to its end.
    lines = done.stdout.strip().splitlines()
    if not lines:
        raise JobError(f"The job {config.JOB} ended with code {done.returncode}: {done.stderr.strip()[-2000:]}")
    return JobReport.from_json(lines[-1])


def _job(name: str) -> Any:
    return importlib.import_module(f"spark_jobs.{name}.job")
