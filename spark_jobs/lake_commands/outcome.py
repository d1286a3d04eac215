"""Rows of the lake commands in `runs`, and what they refuse."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from logcore.storage.objects.answers import said
from spark_jobs.errors import JobError, LeaseHeld, UsageError, error_name

if TYPE_CHECKING:
    from spark_jobs.contracts import JobConfig
    from spark_jobs.lake.view.unfinished_run import UnfinishedRun
    from spark_jobs.outlines import Outline_co


@contextmanager
def recorded(lake: str, command: str, now_ms: int, run_id: str) -> Iterator[UnfinishedRun]:
    """Write a row in the table `runs` for a command that wrote, or failed while it did. Yields what it did so far.

    Raises:
        JobError: The command did its work, and the row cannot be written. Of a failed command its own error counts.
    """
    from spark_jobs.lake.view.runs.run_rows import FAILED, SUCCEEDED, append_run
    from spark_jobs.lake.view.unfinished_run import UnfinishedRun

    run, begun = UnfinishedRun(run_id, command, command, now_ms, now_ms), time.monotonic()

    def append(failed: str | None = None) -> None:
        if run.did_work:
            ended_ms = now_ms + round((time.monotonic() - begun) * 1000)
            append_run(lake, run.row(FAILED if failed else SUCCEEDED, ended_ms, failed and command, failed))

    try:
        yield run
    except Exception as error:
        with suppress(JobError, OSError):
            append(error_name(error))
        raise
    try:
        append()
    except (JobError, OSError) as error:
        why = said(error) if isinstance(error, OSError) else error
        raise JobError(f"The work is done, and its row in the table runs is not: {why}") from error


@contextmanager
def working(lake: str, command: str, now_ms: int) -> Iterator[UnfinishedRun]:
    """Hold the lease of a lake for a command that may write; otherwise as :func:`recorded`. The id of the run is new.

    Raises:
        LeaseHeld: Another run is writing to the lake.
    """
    from spark_jobs.lake.store import lease

    run_id = f"{command}-{uuid.uuid4().hex}"
    with lease.hold(lake, f"loglake {command}"), recorded(lake, command, now_ms, run_id) as run:
        yield run


def run_job(config: JobConfig[Outline_co], now_ms: int) -> Outline_co:
    """Run the job of a command with a row in the table `runs`; return what its report says of the work.

    Raises:
        JobError: It failed.
    """
    from spark_jobs import launch

    begun = time.monotonic()
    with recorded(config.lake, config.JOB, now_ms, config.run_id) as run:
        try:
            report = launch.run(config)
        except Exception as error:
            run.wrote = not isinstance(error, UsageError | LeaseHeld)  # these are raised before anything is written
            raise
        run.add(report, round((time.monotonic() - begun) * 1000))
    return report.plan


def lake_at(path: str) -> str:
    """Return the normalized path of an existing lake.

    Raises:
        UsageError: There is no lake.
    """
    from spark_jobs.lake.repair_commands import no_lake
    from spark_jobs.lake.setup.identity import read_identity
    from spark_jobs.lake.store import storage

    lake = storage.absolute(path)
    if read_identity(lake) is None:
        raise UsageError(no_lake(path))
    return lake


def refuse_inside(target: str, lakes: Sequence[str]) -> None:
    """Refuse a new file in any lake, or in a source of these lakes.

    Raises:
        UsageError: It is in one of them.
    """
    from logcore.cli.reading.arguments import source_around
    from logcore.texts import shown
    from spark_jobs.lake.view.registered_lakes import lake_around, named_sources

    places = [*lakes, *(path for lake in dict.fromkeys(lakes) for path in named_sources(lake))]
    around = lake_around(target) or source_around(target, places)
    if around is not None:
        raise UsageError(f"{shown(target)} is inside {shown(around)}. Name a file outside of lakes and sources.")


def refuse_unmatched(lake: str, patterns: Sequence[str]) -> None:
    """Refuse patterns of ``--topic`` that match no topic of the lake: a misspelled name would do nothing unnoticed.

    Raises:
        UsageError: One does not match; the error has the nearest names.
    """
    from logcore.logs.model.log_selection import LogSelection
    from logcore.reading.nearest_names import unmatched
    from spark_jobs.lake.segments import archive

    if not patterns:
        return
    said = unmatched(LogSelection(tuple(patterns)), {log.topic for log in archive.read_logs(lake).values()})
    if said:
        raise UsageError(said.strip())
