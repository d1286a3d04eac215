"""What runs the tasks of a job: worker processes of this machine, or Spark.

    local    worker processes; no JVM starts
    spark    the cluster that LOGLAKE_SPARK_MASTER names, or Spark on the cores of this machine
    auto     spark where LOGLAKE_SPARK_MASTER names a cluster, else local

Without a cluster both use the same cores. Worker processes start faster than a JVM, and were faster at every size that
was measured (docs/deploy.md). So ``auto`` knows no size.
"""

from __future__ import annotations

import os
from enum import StrEnum

from spark_jobs.errors import UsageError

JOB_ENGINE_VARIABLE = "LOGLAKE_JOB_ENGINE"
SPARK_MASTER_VARIABLE = "LOGLAKE_SPARK_MASTER"


class JobEngine(StrEnum):
    """The engines of jobs; ``auto`` becomes one of the other two."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


ORDINARY_ENGINE = JobEngine.LOCAL, "no Spark cluster is configured"
"""What :func:`chosen_engine` returns where nobody chose anything."""


def chosen_engine(named: str | None = None) -> tuple[JobEngine, str]:
    """The engine for a job, never ``auto``, and the reason in some words.

    Args:
        named: what the caller requests; None or ``auto``: what LOGLAKE_JOB_ENGINE names, else as this machine is set
            up.

    Raises:
        UsageError: no such engine.
    """
    asked = _engine(named, "engine")
    if asked is not JobEngine.AUTO:
        return asked, "as requested"
    asked = _engine(os.environ.get(JOB_ENGINE_VARIABLE), JOB_ENGINE_VARIABLE)
    if asked is not JobEngine.AUTO:
        return asked, f"as {JOB_ENGINE_VARIABLE} requests"
    master = os.environ.get(SPARK_MASTER_VARIABLE, "")
    if master and not master.startswith("local"):
        return JobEngine.SPARK, f"{SPARK_MASTER_VARIABLE} names a cluster"
    return ORDINARY_ENGINE


def is_engine_requested() -> bool:
    """Whether LOGLAKE_JOB_ENGINE fixes the engine of every job, however small."""
    return _engine(os.environ.get(JOB_ENGINE_VARIABLE), JOB_ENGINE_VARIABLE) is not JobEngine.AUTO


def _engine(named: str | None, what: str) -> JobEngine:
    try:
        return JobEngine(named or JobEngine.AUTO)
    except ValueError:
        raise UsageError(f"{what} {named!r}: use {', '.join(JobEngine)}.") from None
