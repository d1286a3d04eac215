"""The offset up to which ``expectations`` has checked the published rows of each log.

It is recorded as the version of application ``expectations/<log>`` in the table ``findings``. So if a run dies between
publishing and checking, the next run checks.
"""

from __future__ import annotations

from collections.abc import Mapping

from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.segments import archive


def pending_ranges(lake: str) -> dict[str, tuple[int, int]]:
    """Return published offset ranges that are not checked yet, by log key."""
    logs = sorted(archive.read_logs(lake))
    frontiers = frontier.read_frontiers(lake, logs)
    checked = commits.versions(lake, "findings", [_application_id(log) for log in logs])
    pending = {}
    for log in logs:
        done, end = checked[_application_id(log)] or 0, frontiers[log] or 0
        if end > done:
            pending[log] = (done, end)
    return pending


def mark_checked(lake: str, ranges: Mapping[str, tuple[int, int]], run_id: str) -> None:
    """Record that these ranges were checked, with any outcome."""
    ids = [_application_id(log) for log in ranges]
    before = commits.versions(lake, "findings", ids)
    guards = [
        Guard(_application_id(log), before[_application_id(log)], end)
        for log, (_, end) in sorted(ranges.items())
        if end > (before[_application_id(log)] or 0)
    ]
    commits.add_files(lake, "findings", [], run_id, guards)


def _application_id(log: str) -> str:
    return f"expectations/{log}"
