"""The folder of Dagster's history, for runs that start from the command line.

``$DAGSTER_HOME`` if it is set, otherwise ``dagster`` in the operator's home. A new folder gets the same
``dagster.yaml`` that ``make ui`` uses, so that both share one instance. It is never inside a lake: a ``dagster.yaml``
can name code that Dagster then runs, and the author of a lake may be unknown.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

from pipelines.catalog.names import LOCATION, REPOSITORY
from pipelines.command.history import prepare_history

HOST_TAG, PROCESS_TAG = ".dagster/loglake-host", ".dagster/loglake-process"
"""Dagster hides tags that begin so: they are for programs."""
REPOSITORY_TAG = ".dagster/repository"
"""Dagster's own tag, by which the page of a job finds its runs."""


def open_instance(default_folder: str, lake: str | None = None) -> dg.DagsterInstance:
    """Open the instance that the environment names, or the one in this folder; creates it if it does not exist.

    Sets ``DAGSTER_HOME`` in this process, because Dagster reads it.

    Args:
        lake: A directory that is a lake, or becomes one in this run.

    Raises:
        UsageError: The folder is inside a lake.
    """
    folder = prepare_history(default_folder, lake)
    os.environ["DAGSTER_HOME"] = str(folder)
    return dg.DagsterInstance.from_config(str(folder))


@contextmanager
def runs_of_location(instance: dg.DagsterInstance) -> Iterator[None]:
    """Let runs that are created inside the block belong to our code location, as those that Dagster's pages start.

    The first page and the pages of jobs leave out other runs.
    """
    origin = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin(LOCATION), REPOSITORY)
    create = instance.create_run_for_job

    def create_run_for_job(job_def: dg.JobDefinition, tags: Mapping[str, str] | None = None, **more: Any) -> Any:
        tags = {**(tags or {}), REPOSITORY_TAG: f"{REPOSITORY}@{LOCATION}"}
        return create(job_def=job_def, tags=tags, remote_job_origin=RemoteJobOrigin(origin, job_def.name), **more)

    instance.create_run_for_job = create_run_for_job  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        del instance.create_run_for_job  # the method of the class again


def process_tags() -> dict[str, str]:
    """Tags from which a later run can see that this process has ended, and its run with it.

    The daemon must not restart such a run by itself: only the user who started the command may do so.
    """
    return {HOST_TAG: socket.gethostname(), PROCESS_TAG: _process(os.getpid()), "dagster/max_retries": "0"}


def end_dead_runs(instance: dg.DagsterInstance) -> None:
    """Mark runs of killed processes as failed and free their slots in pools.

    A killed run cannot do it, and its slot in a pool of one would block every later run.
    """
    unfinished = dg.RunsFilter(
        statuses=[dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.CANCELING],
        tags={HOST_TAG: socket.gethostname()},
    )
    for run in instance.get_runs(unfinished):
        named = run.tags.get(PROCESS_TAG, "")
        pid = named.partition(" ")[0]
        if pid.isdigit() and _process(int(pid)) != named:
            instance.report_run_failed(run, "The process of this run ended before the run did.")
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)


def _process(pid: int) -> str:
    """Identify a process by number and start time, so that a reused number is not taken for the same process."""
    try:
        # Field 22 of /proc/<pid>/stat. The name in field 2 may contain anything, so count after its closing
        # parenthesis.
        started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        try:
            os.kill(pid, 0)
        except OSError:
            return ""
        started = "?"
    return f"{pid} {started}"
