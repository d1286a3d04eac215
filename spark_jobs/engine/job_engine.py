"""What runs the tasks of a job: worker processes of this machine, or Spark.

    local    worker processes; no JVM starts
    spark    the cluster that LOGLAKE_SPARK_MASTER names, or Spark on the cores of this machine
    auto     spark where LOGLAKE_SPARK_MASTER names a cluster, or where its JVM's start is a small part of the job

Without a cluster both use the same cores, and worker processes start faster than a JVM (docs/deploy.md). From the size
at which the start is a tenth of the job on, ``auto`` takes Spark, if its Java and its jars are on this machine. The
size of a job downloads nothing. A run that Dagster started takes Spark whatever the size, under the same condition.
A run keeps the engine of its first job that has tasks for workers.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from spark_jobs.errors import JobError, UsageError

JOB_ENGINE_VARIABLE = "LOGLAKE_JOB_ENGINE"
SPARK_MASTER_VARIABLE = "LOGLAKE_SPARK_MASTER"
SPARK_FROM_VARIABLE = "LOGLAKE_SPARK_FROM_GIB"
"""GiB of a job from which on ``auto`` takes Spark on one machine."""

JVM_START_SECONDS = 8.0
"""What a run by Spark costs more than one by worker processes when both have almost nothing to do: 13.5-14.7 s against
5.8-6.5 s for ``loglake run`` of an almost empty directory on two cores, at commit cfcf08b."""
SECONDS_PER_GIB = 8.4
"""What a further GiB costs ``loglake run`` with worker processes on the same machine at the same commit."""
START_SHARE = 0.1
"""The part of a job that the start may be."""

_FOLLOWED_ON_DRIVER = 1 << 20
_MERGED_ON_DRIVER = 64 << 20
IN_PROCESS_BYTES: Mapping[str, int] = MappingProxyType(
    {
        "check_foreign_rows": _MERGED_ON_DRIVER,
        "cluster": _FOLLOWED_ON_DRIVER,
        "decode": _FOLLOWED_ON_DRIVER,
        "latest": _FOLLOWED_ON_DRIVER,
        "optimize": _MERGED_ON_DRIVER,
        "recover": _MERGED_ON_DRIVER,
        "retention": _MERGED_ON_DRIVER,
        "tidy_archive": _MERGED_ON_DRIVER,
    }
)
"""Bytes up to which the driver does the tasks of a job by itself where the engine is local: it is done before workers
would have started. The plan of `cluster` reads that much on both engines: nothing new needs no workers. Where decoding
reads no more, it is the plain one: native code on foreign bytes could end the driver. Jobs that are not here always
use workers."""


class JobEngine(StrEnum):
    """The engines of jobs; ``auto`` becomes one of the other two."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


ORDINARY_ENGINE = JobEngine.LOCAL, "no Spark cluster is configured"
"""What :func:`chosen_engine` returns for a job of ordinary size where nobody chose anything."""


def chosen_engine(named: str | None = None, task_bytes: int = 0, *, by_dagster: bool = False) -> tuple[JobEngine, str]:
    """The engine for a job, never ``auto``, and the reason in some words.

    Args:
        named: what the caller requests, or what this function returned for the run, as ``spark: reason``; None or
            ``auto``: what LOGLAKE_JOB_ENGINE names, else as this machine is set up.
        task_bytes: what the tasks of the job read.
        by_dagster: whether Dagster started the run. Then the bytes do not matter.

    Raises:
        UsageError: no such engine, or the size from which on Spark is used is no number.
    """
    name, _, why = (named or "").partition(": ")
    asked = _engine(name, "engine")
    if asked is not JobEngine.AUTO:
        return asked, why or "as requested"
    asked = _engine(os.environ.get(JOB_ENGINE_VARIABLE), JOB_ENGINE_VARIABLE)
    if asked is not JobEngine.AUTO:
        return asked, f"as {JOB_ENGINE_VARIABLE} requests"
    master = os.environ.get(SPARK_MASTER_VARIABLE, "")
    if master and not master.startswith("local"):
        return JobEngine.SPARK, f"{SPARK_MASTER_VARIABLE} names a cluster"
    if by_dagster:
        return _spark_if_usable("Dagster started the run", "Spark is used for what Dagster starts")
    least, gib = _spark_from(), task_bytes / (1 << 30)
    if gib < least:
        return ORDINARY_ENGINE
    rule = f"Spark is used from {least:.1f} GiB on"
    return _spark_if_usable(f"the tasks read {gib:.1f} GiB, and {rule}", rule)


def _spark_if_usable(why: str, rule: str) -> tuple[JobEngine, str]:
    from spark_jobs.engine.jars import delta_jars
    from spark_jobs.engine.java import find_java

    try:
        find_java()
        delta_jars(may_fetch=False)
    except (JobError, UsageError) as error:
        return JobEngine.LOCAL, f"{rule}, but cannot start. {error}"
    return JobEngine.SPARK, why


def _spark_from() -> float:
    """GiB of a job from which on Spark is used on one machine; 0: always."""
    given = os.environ.get(SPARK_FROM_VARIABLE) or JVM_START_SECONDS / START_SHARE / SECONDS_PER_GIB
    try:
        least = float(given)
    except ValueError:
        least = math.nan
    if not least >= 0:
        raise UsageError(f"{SPARK_FROM_VARIABLE} {given!r}: use a number of GiB, such as 10; 0: always; inf: never.")
    return least


def is_engine_requested() -> bool:
    """Whether a setting fixes the engine of every job, however small."""
    return _engine(os.environ.get(JOB_ENGINE_VARIABLE), JOB_ENGINE_VARIABLE) is not JobEngine.AUTO or not _spark_from()


def _engine(named: str | None, what: str) -> JobEngine:
    try:
        return JobEngine(named or JobEngine.AUTO)
    except ValueError:
        raise UsageError(f"{what} {named!r}: use {', '.join(JobEngine)}.") from None
