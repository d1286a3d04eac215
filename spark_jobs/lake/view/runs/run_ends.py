"""When runs of a lake last succeeded and failed.

The table ``runs`` has a row for each run that did work or failed. A run that finds nothing to do leaves none: it only
renews ``<home>/run_ends/<lake>.json``, which each run of this home writes at its end. So a source that rests and a
schedule that has stopped are not the same.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace

from logcore.storage.source_errors import shown
from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake.delta.state.tables_file import read_state
from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.lake.setup import registry
from spark_jobs.lake.store import lease, storage
from spark_jobs.lake.view.runs.run_rows import JOBS, SUCCEEDED, TABLE, RunRow

FOLDER = "run_ends"
SOURCE_UNREAD = "SourceUnread"
"""Error of a run that could not read a source, as ``runs`` and alerts name it."""
FORGOTTEN = ""
"""In place of the sources that could not be read, after they were forgotten."""


@dataclass(frozen=True, slots=True)
class RunEnds:
    """The newest ends of runs of one job."""

    succeeded_ms: int | None = None
    failed_ms: int | None = None
    error: str | None = None
    """Class of the error of the newest run that failed."""
    unread: str | None = None
    """Which source it could not read, and why; None: another error."""
    warned: Mapping[str, str] = field(default_factory=dict)
    """Warnings of the newest run of each source about its path, by source; the lake has nothing of them."""
    harmed: Mapping[str, str] = field(default_factory=dict)
    """Damage that it found at its path, by source; the lake has nothing of it."""
    planned_ms: int | None = None
    """When the newest run ended that only planned."""
    seen: str | None = None
    """Digest of the listing of the sources before the newest run of the command line that succeeded. The sensor asks
    for no run of what that run has taken in."""

    @property
    def is_failing(self) -> bool:
        """Whether no run has succeeded since the newest failure."""
        return self.failed_ms is not None and self.failed_ms > max(self.succeeded_ms or -1, self.planned_ms or -1)


def run_ends(lake: str, rows: Mapping[str, RunRow]) -> dict[str, RunEnds]:
    """Return the newest ends by job, by what this home has kept and by the newest rows of ``runs``.

    Args:
        lake: The lake.
        rows: The newest row of each job.
    """
    kept = _kept(lake)
    return {job: _joined(kept.get(job, RunEnds()), rows.get(job)) for job in JOBS}


def _joined(known: RunEnds, row: RunRow | None) -> RunEnds:
    if row is not None and row.outcome == SUCCEEDED:
        if row.job == JOBS[-1] and not row.phases:
            return known  # it may be of a plan; only the home knows
        return replace(known, succeeded_ms=max(row.ended_ms, known.succeeded_ms or 0))
    if row is not None and row.ended_ms > (known.failed_ms or 0):
        return replace(known, failed_ms=row.ended_ms, error=row.error, unread=None)
    return known


def killed_run(lake: str, now_ms: int) -> str | None:
    """Return a sentence with the command to type if the newest run was killed; None: it has ended or goes on.

    Single jobs, as of a step of Dagster, are no runs.

    Args:
        lake: The lake.
        now_ms: The clock, epoch milliseconds.

    Raises:
        StorageError: The object store did not answer.
        OSError: The lease of a local lake cannot be opened.
    """
    killed = lease.killed_holder(lake, now_ms)
    if killed is None or not killed[1]:
        return None
    who, command = killed
    which = "newest" if _has_run(lake) else "first"
    return f"The {which} run did not end: {who} was killed or interrupted. The same command continues it: `{command}`"


def first_run_killed(lake: str, now_ms: int) -> str | None:
    """Return the same if it was the first run: then tables are not there yet."""
    killed = killed_run(lake, now_ms)
    return None if killed is None or _has_run(lake) else killed


def _has_run(lake: str) -> bool:
    return read_state(lake).run_id is not None or storage.has_files(table_uri(lake, TABLE))


def last_seen(lake: str, job: str) -> str | None:
    """Return the digest of the sources that the newest run of the command line has taken in; None: there is none."""
    return _kept(lake).get(job, RunEnds()).seen


def keep_run_end(
    lake: str,
    job: str,
    ended_ms: int,
    error: str | None = None,
    unread: str | None = None,
    seen: str | None = None,
    warned: Mapping[str, str] | None = None,
    harmed: Mapping[str, str] | None = None,
    *,
    is_plan: bool = False,
) -> bool:
    """Record the end of a run in the home. If that is impossible, the run itself still counts.

    Args:
        lake: The lake.
        job: ``intake`` or ``maintenance``.
        ended_ms: The clock.
        error: Class of its error; None: it succeeded.
        unread: Which source it could not read, and why.
        seen: Digest of the listing of the sources before the run; None: not known.
        warned: Its warnings about source paths, by source that it read; None: it did not look at them. What other
            sources had stays.
        harmed: Damage at source paths; None: the same.
        is_plan: Whether it only planned: that is no success of the job.

    Returns:
        Whether the run before failed with the same error.
    """
    with suppress(JobError, UsageError, OSError):
        kept = _kept(lake)
        before = kept.get(job, RunEnds())
        said = replace(before, warned=_renewed(before.warned, warned), harmed=_renewed(before.harmed, harmed))
        if error is None:
            said = replace(said, seen=seen or before.seen)
            after = replace(said, planned_ms=ended_ms) if is_plan else replace(said, succeeded_ms=ended_ms)
        else:
            after = replace(said, failed_ms=ended_ms, error=error, unread=unread)
        content = {name: asdict(ends) for name, ends in {**kept, job: after}.items()}
        registry.put_in_home(registry.home_file(FOLDER, lake), json.dumps(content).encode())
        return error is not None and before.is_failing and (before.error, before.unread) == (error, unread)
    return False


def forget_ends(lake: str, paths: Collection[str]) -> None:
    """Forget what runs found at sources that are forgotten. That a run failed stays.

    Raises:
        JobError: The home cannot be written.
        UsageError: The registration cannot be used.
    """
    kept = _kept(lake)
    gone = set(map(shown, paths))
    others = {shown(path) for each in registry.recall(lake).intakes for path in (*each.sources, *each.fill_from)} - gone
    for job, ends in kept.items():
        of_sources = (
            {at: what for at, what in it.items() if not is_below(at, paths)} for it in (ends.warned, ends.harmed)
        )
        warned, harmed = of_sources
        names = {path for path in (*gone, *others) if path in (ends.unread or "")}
        kept[job] = replace(
            ends, warned=warned, harmed=harmed, unread=FORGOTTEN if names and names <= gone else ends.unread
        )
    content = {job: asdict(ends) for job, ends in kept.items()}
    registry.put_in_home(registry.home_file(FOLDER, lake), json.dumps(content).encode())


def _renewed(before: Mapping[str, str], of_run: Mapping[str, str] | None) -> dict[str, str]:
    """What runs found at each source, as of now: of those that a run read, and of those below them, what it found."""
    stays = {path: said for path, said in before.items() if not is_below(path, of_run or ())}
    return {path: said for path, said in {**stays, **(of_run or {})}.items() if said}


def is_below(path: str, sources: Iterable[str]) -> bool:
    """Whether a path is one of the sources, or lies in one."""
    return any(path == each or (each and f"{path}/".startswith(f"{each.rstrip('/')}/")) for each in sources)


def _kept(lake: str) -> dict[str, RunEnds]:
    """Return what this home has of a lake; nothing if it is not what was written."""
    try:
        kept = json.loads(storage.read(registry.home_file(FOLDER, lake)))
        return {job: RunEnds(**ends) for job, ends in kept.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
