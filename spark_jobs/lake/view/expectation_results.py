"""The last results of the job ``expectations`` for each log, kept so that a run with nothing new still shows them.

``<home>/expectations/<lake>.json`` has the last results of the job ``expectations``, by log key. It is in the
operator's home, because the content of a lake must not make a check green. Results count only while all commits to the
table are our own. Everything is evaluated again after a commit of another engine, and if the file is missing or cannot
be parsed. Failures are evaluated again as soon as the table or the ledger has another version. A failure that only
Spark finds, on rows, counts until Spark has checked the rows again. Which offsets are not checked yet is recorded in
the tables (:mod:`spark_jobs.lake.view.expectation_results`).
Great Expectations is never imported here.

The offset up to which ``expectations`` has checked the published rows of each log.

It is recorded as the version of application ``expectations/<log>`` in the table ``findings``. So if a run dies between
publishing and checking, the next run checks.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from urllib.parse import quote

from spark_jobs.contracts import JobReport
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.state import foreign_commits
from spark_jobs.lake.delta.tables import delta_log
from spark_jobs.lake.delta.tables.snapshots import latest_snapshot
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.segments import archive
from spark_jobs.lake.setup import registry
from spark_jobs.lake.store import storage
from spark_jobs.outlines import RangesOutline

EXPECTATIONS = "expectations"
"""Begins the application id of each log, and is the folder of results in the home."""


def pending_ranges(lake: str) -> dict[str, tuple[int, int]]:
    """Return published offset ranges that are not checked yet, by log key."""
    logs = sorted(archive.read_logs(lake))
    frontiers = frontier.read_frontiers(lake, logs)
    checked = commits.versions_of_logs(lake, "findings", logs, EXPECTATIONS)
    pending = {}
    for log in logs:
        done, end = checked[log] or 0, frontiers[log] or 0
        if end > done:
            pending[log] = (done, end)
    return pending


def mark_checked(lake: str, ranges: Mapping[str, tuple[int, int]], run_id: str) -> None:
    """Record that these ranges were checked, with any outcome."""
    before = commits.versions_of_logs(lake, "findings", ranges, EXPECTATIONS)
    guards = [
        Guard(f"{EXPECTATIONS}/{log}", before[log], end)
        for log, (_, end) in sorted(ranges.items())
        if end > (before[log] or 0)
    ]
    commits.add_files(lake, "findings", [], run_id, guards)


_DOCS_FOLDER = "data_docs"
DOCS_INDEX = f"{_DOCS_FOLDER}/index.html"
LARGEST_PAGE = 16 * 1024 * 1024
"""Bytes of a page that are shown at most."""
VERSION = 2
_NOT_AGAIN = "; not checked again: that needs `--engine spark`"


@dataclass(frozen=True, slots=True)
class LogExpectation:
    """One expectation on one log."""

    name: str
    success: bool
    observed: str
    severity: str
    is_of_rows: bool = False
    """Whether only a job on Spark finds it, which reads each row."""

    @property
    def is_of_suite(self) -> bool:
        """Whether it is of a user's suite, such as ``orders.json 1: …``. The names of our own are one word."""
        return " " in self.name


@dataclass(frozen=True, slots=True)
class Results:
    """The last results of all expectations on one log."""

    start_offset: int
    end_offset: int
    outcomes: tuple[LogExpectation, ...]

    @property
    def is_met(self) -> bool:
        """Whether there are outcomes, and none that counts has failed."""
        return bool(self.outcomes) and all(o.success or o.severity == "info" for o in self.outcomes)


@dataclass(frozen=True, slots=True)
class RecordsVersion:
    """The version of ``records`` that results are about."""

    table_id: str
    version: int
    ledger_version: int
    """Version of ``offset_ledger``: a withdrawal changes the expected rows, but no row."""

    @classmethod
    def now(cls, lake: str) -> RecordsVersion | None:
        """Return the present version; None if there is no such table."""
        table = latest_snapshot(lake, "records")
        if table is None:
            return None
        ledger = latest_snapshot(lake, "offset_ledger")
        return cls(str(table.metadata().id), table.version(), -1 if ledger is None else ledger.version())

    def is_still_ours(self, lake: str, now: RecordsVersion) -> bool:
        """Return whether only our own commits are between this and ``now``."""
        if self.table_id != now.table_id or now.version < self.version:
            return False
        if self.version == now.version:
            return True
        # A commit that the table's log no longer keeps may be of any program.
        first = delta_log.read_commit(lake, "records", self.version + 1)
        return first is not None and not foreign_commits.foreign_commits(lake, "records", self.version)


@dataclass(frozen=True, slots=True)
class DueExpectations:
    """What has to be evaluated, and the results that still count."""

    ranges: Mapping[str, tuple[int, int]]
    """Offset ranges by log key; empty: nothing is due."""
    kept: Mapping[str, Results]
    version: RecordsVersion | None
    """The version of ``records`` of both; None if there is no such table."""
    failed_on_rows: Mapping[str, tuple[LogExpectation, ...]] = field(default_factory=dict)
    """By log: failures that count unless each row is checked again. Logs without one are left out."""


def due_expectations(lake: str, published: Mapping[str, int], again: Collection[str] = ()) -> DueExpectations:
    """Return what was published and has no result that still counts.

    Args:
        published: The end of the published offsets of each log, by log key.
        again: Logs that are evaluated from the beginning in any case.
    """
    version = RecordsVersion.now(lake)
    kept = read_results(lake, version)
    ranges = pending_ranges(lake)
    for log, end in published.items():
        # A log without results is evaluated from the beginning: a run can die between the job and the storing of its
        # results, another engine may have changed rows, and after a failure rows may have been replaced.
        if log in again or log not in kept:
            ranges[log] = (0, end)
    before, results = _stored(lake)
    is_same_table = before is not None and version is not None and before.table_id == version.table_id
    failed = {log: _failed_on_rows(results[log]) for log in ranges if is_same_table and log in results}
    return DueExpectations(ranges, kept, version, {log: unmet for log, unmet in failed.items() if unmet})


def keep_evaluated(lake: str, due: DueExpectations, report: JobReport[RangesOutline] | None) -> dict[str, Results]:
    """Keep the results that still count together with those of the report; return all of them by log key.

    Args:
        report: Report of the job ``expectations`` on the ranges that were due; None if there were none.
    """
    results = dict(due.kept)
    if report is not None:
        results |= _results_of(report, due)
    if due.version is not None:
        _keep(lake, results, due.version)
    return results


def read_results(lake: str, now: RecordsVersion | None) -> dict[str, Results]:
    """Return the last results that still count, by log key; empty if there are none."""
    before, found = _stored(lake)
    with suppress(OSError):  # then they are evaluated again
        if before is not None and now is not None and before.is_still_ours(lake, now):
            return {log: results for log, results in found.items() if results.is_met or before == now}
    return {}


def _stored(lake: str) -> tuple[RecordsVersion | None, dict[str, Results]]:
    """Return the stored results of all logs, and the version that they are about; None if there are none."""
    try:
        content = json.loads(storage.read(results_file(lake)))
        if content["version"] != VERSION:
            return None, {}
        about = RecordsVersion(str(content["table_id"]), int(content["table_version"]), int(content["ledger_version"]))
        return about, {str(log): _results(found) for log, found in content["logs"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None, {}  # then they are evaluated again


def results_file(lake: str) -> str:
    """Return the path of the results on a lake."""
    return registry.home_file(EXPECTATIONS, lake)


def page_of(lake: str, report: JobReport[RangesOutline] | None) -> str | None:
    """Return the HTML page of this run, else the list of all pages of the lake; None if there is none."""
    made = report.metrics.get("data_docs") if report is not None else None
    index = storage.join(lake, DOCS_INDEX)
    return str(made) if made else index if storage.exists(index) else None


def page_name(lake: str, page: str) -> str:
    """Return the name of a page by its path: relative to the folder of the pages, quoted for an address."""
    return quote(storage.relative(page, storage.join(lake, _DOCS_FOLDER)))


def read_page(lake: str, name: str) -> bytes | None:
    """Return the content of a page of the Data Docs, to show it in a browser; None if there is no such page.

    A lake may come from another person, and the address of a page from anybody. So only files in the folder of the
    pages are read, and links that lead out of it are not followed.

    Args:
        name: Path relative to the folder of the pages, not quoted.
    """
    parts = name.split("/")
    if not name.endswith(".html") or any(part in ("", ".", "..") or "\0" in part or "\\" in part for part in parts):
        return None
    folder = storage.join(lake, _DOCS_FOLDER)
    path = storage.join(folder, *parts)
    if not storage.is_remote(lake) and os.path.realpath(path) != os.path.join(os.path.realpath(folder), *parts):
        return None
    try:
        return storage.read(path) if storage.stat(path).size <= LARGEST_PAGE else None
    except OSError:
        return None


def _results(found: Mapping[str, object]) -> Results:
    start, end, outcomes = found["start_offset"], found["end_offset"], found["outcomes"]
    if not isinstance(start, int) or not isinstance(end, int) or not isinstance(outcomes, list):
        raise ValueError("not what was written")
    made = tuple(LogExpectation(**outcome) for outcome in outcomes)
    if not all(isinstance(o.success, bool) and isinstance(o.severity, str) for o in made):
        raise ValueError("not what was written")
    return Results(start, end, made)


def _keep(lake: str, kept: Mapping[str, Results], version: RecordsVersion) -> None:
    """Store only these results, with a version of the table; unchanged results are not written again."""
    content = {
        "version": VERSION,
        "lake": lake,
        "table_id": version.table_id,
        "table_version": version.version,
        "ledger_version": version.ledger_version,
        "logs": {log: _plain(found) for log, found in sorted(kept.items())},
    }
    text = json.dumps(content).encode()
    try:
        is_new = storage.read(results_file(lake)) != text
    except OSError:
        is_new = True
    if is_new:
        registry.put_in_home(results_file(lake), text)


def _plain(found: Results) -> dict[str, object]:
    """As ``dataclasses.asdict``, which copies every value: a lake may have 10,000 logs."""
    outcomes = [{field.name: getattr(each, field.name) for field in _FIELDS} for each in found.outcomes]
    return {"start_offset": found.start_offset, "end_offset": found.end_offset, "outcomes": outcomes}


_FIELDS = dataclasses.fields(LogExpectation)


def _results_of(report: JobReport[RangesOutline], due: DueExpectations) -> dict[str, Results]:
    """Return the results in the report, by log.

    An expectation that names no log it fails on fails for all of them. A report without expectations gives each log an
    empty result, which fails as well. Earlier failures on rows stay if the job did not check each row.
    """
    expectations = report.plan.expectations or ()
    earlier = {} if any(each.is_of_rows for each in expectations) else due.failed_on_rows
    found: dict[str, list[LogExpectation]] = {log: [*earlier.get(log, ())] for log in due.ranges}
    for each in expectations:
        failing = set(each.failing)
        for log, outcomes in found.items():
            success = each.success or (bool(failing) and log not in failing)
            outcomes.append(LogExpectation(each.name, success, each.observed, each.severity, each.is_of_rows))
    return {log: Results(*due.ranges[log], tuple(outcomes)) for log, outcomes in found.items()}


def _failed_on_rows(found: Results) -> tuple[LogExpectation, ...]:
    """Return the failures that counts do not show, with the note that they were not checked again."""
    return tuple(
        replace(each, observed=each.observed.removesuffix(_NOT_AGAIN) + _NOT_AGAIN)
        for each in found.outcomes
        if each.is_of_rows and not each.success and each.severity != "info"
    )
