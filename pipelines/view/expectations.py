"""The last answer of Great Expectations for each log, kept so that a run with nothing new still shows it.

``<home>/expectations/<lake>.json`` holds what the job ``expectations`` reported last, by log key, in the operator's
home: what lies in a lake cannot make a check green. An answer counts only while the table's version moved by our own
commits; after a commit of another engine, or where the file is gone or cannot be understood, everything is evaluated
again; so is what failed, as soon as the table or the ledger has another version. Which offsets still wait to be
checked is recorded in the tables (:mod:`spark_jobs.lake.published.checked`).
Great Expectations is never imported here.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from spark_jobs.contracts import JobReport
from spark_jobs.lake.delta import delta_log, table_state
from spark_jobs.lake.delta.tables import open_table
from spark_jobs.lake.setup import registry
from spark_jobs.lake.store import storage

FOLDER = "expectations"
DOCS_INDEX = "data_docs/index.html"
VERSION = 1


@dataclass(frozen=True, slots=True)
class LogExpectation:
    """One expectation on one log."""

    name: str
    success: bool
    observed: str
    severity: str


@dataclass(frozen=True, slots=True)
class Results:
    """All expectations on one log, as last asked."""

    start_offset: int
    end_offset: int
    outcomes: tuple[LogExpectation, ...]

    @property
    def is_met(self) -> bool:
        """Whether there are outcomes, and none that counts has failed."""
        return bool(self.outcomes) and all(o.success or o.severity == "info" for o in self.outcomes)


@dataclass(frozen=True, slots=True)
class Stand:
    """Which table, in which version, answers are about."""

    table_id: str
    version: int
    ledger_version: int
    """Of ``offset_ledger``: a withdrawal changes what is expected, and no row."""

    @classmethod
    def now(cls, lake: str) -> Stand | None:
        """Of ``records`` at this moment; None where there is no such table."""
        table = open_table(lake, "records")
        if table is None:
            return None
        ledger = open_table(lake, "offset_ledger")
        return cls(str(table.metadata().id), table.version(), -1 if ledger is None else ledger.version())

    def is_still_ours(self, lake: str, now: Stand) -> bool:
        """Whether only our own commits lie between this and ``now``."""
        if self.table_id != now.table_id or now.version < self.version:
            return False
        if self.version == now.version:
            return True
        # A commit that the table's log does not keep any more may have been anybody's.
        first = delta_log.read_commit(lake, "records", self.version + 1)
        return first is not None and not table_state.foreign_commits(lake, "records", self.version)


def read_results(lake: str, now: Stand | None) -> dict[str, Results]:
    """The last results that still count, by log key; empty where there are none."""
    try:
        content = json.loads(storage.read(results_file(lake)))
        if content["version"] != VERSION or now is None:
            return {}
        before = Stand(str(content["table_id"]), int(content["table_version"]), int(content["ledger_version"]))
        if not before.is_still_ours(lake, now):
            return {}
        kept = {str(log): _results(found) for log, found in content["logs"].items()}
        return {log: found for log, found in kept.items() if found.is_met or before == now}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}  # then they are evaluated again


def _results(found: Mapping[str, object]) -> Results:
    start, end, outcomes = found["start_offset"], found["end_offset"], found["outcomes"]
    if not isinstance(start, int) or not isinstance(end, int) or not isinstance(outcomes, list):
        raise ValueError("not what was written")
    made = tuple(LogExpectation(**outcome) for outcome in outcomes)
    if not all(isinstance(o.success, bool) and isinstance(o.severity, str) for o in made):
        raise ValueError("not what was written")
    return Results(start, end, made)


def keep_results(lake: str, kept: Mapping[str, Results], stand: Stand) -> None:
    """Keep these results, and no others, as of a version of the table; the same again writes nothing."""
    content = {
        "version": VERSION,
        "lake": lake,
        "table_id": stand.table_id,
        "table_version": stand.version,
        "ledger_version": stand.ledger_version,
        "logs": {log: dataclasses.asdict(found) for log, found in sorted(kept.items())},
    }
    text = json.dumps(content, indent=1).encode()
    try:
        is_new = storage.read(results_file(lake)) != text
    except OSError:
        is_new = True
    if is_new:
        storage.put(results_file(lake), text)


def results_file(lake: str) -> str:
    """Where the answers on a lake are kept."""
    return os.path.join(registry.home(), FOLDER, f"{registry.key_of(lake)}.json")


def results_of(report: JobReport, ranges: Mapping[str, tuple[int, int]]) -> dict[str, Results]:
    """What the job reported, by log.

    An expectation that names no log it fails on fails for all of them; a report without expectations gives each log
    an empty result, which fails as well.
    """
    found: dict[str, list[LogExpectation]] = {log: [] for log in ranges}
    for item in report.plan.get("expectations", ()):
        failing = set(item["failing"])
        for log, outcomes in found.items():
            success = item["success"] is True or (bool(failing) and log not in failing)
            outcomes.append(LogExpectation(str(item["name"]), success, str(item["observed"]), str(item["severity"])))
    return {log: Results(*ranges[log], tuple(outcomes)) for log, outcomes in found.items()}


def page_of(lake: str, report: JobReport | None) -> str | None:
    """The HTML page that this run made, else the list of all pages of the lake; None where there is none."""
    made = report.metrics.get("data_docs") if report is not None else None
    index = storage.join(lake, DOCS_INDEX)
    return str(made) if made else index if storage.exists(index) else None
