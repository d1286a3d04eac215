"""The folder of Dagster's history, for runs that start from the command line.

``$DAGSTER_HOME`` if it is set, otherwise ``dagster`` in the operator's home. A new folder gets the same
``dagster.yaml`` that ``make ui`` uses, so that both share one instance. It is never inside a lake: a ``dagster.yaml``
can name code that Dagster then runs, and the author of a lake may be unknown.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import dagster as dg

from pipelines.command.history import prepare_history

HOST_TAG, PROCESS_TAG = "loglake/host", "loglake/process"


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
