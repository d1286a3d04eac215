"""The last answer of Great Expectations for each log, kept so that a run with nothing new still shows it.

``<lake>/expectations.json`` holds what the job ``expectations`` reported last, by log key. It is a memory for the
check, not state of the lake: which offsets still wait to be checked is recorded in the tables
(:mod:`spark_jobs.lake.checked`). Great Expectations is never imported here.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass

from spark_jobs.contracts import JobReport
from spark_jobs.lake import storage

RESULTS_FILE = "expectations.json"
DOCS_INDEX = "data_docs/index.html"


@dataclass(frozen=True, slots=True)
class Outcome:
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
    outcomes: tuple[Outcome, ...]


def read_results(lake: str) -> dict[str, Results]:
    """The last results by log key; empty where nothing was asked yet.

    Raises:
        ValueError: the file is there but is not one of ours.
    """
    path = storage.join(lake, RESULTS_FILE)
    try:
        content = json.loads(storage.read(path))
        return {
            log: Results(
                found["start_offset"],
                found["end_offset"],
                tuple(Outcome(**outcome) for outcome in found["outcomes"]),
            )
            for log, found in content.items()
        }
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} cannot be understood ({error}); delete it, and check again.") from error


def keep_results(lake: str, results: Mapping[str, Results]) -> dict[str, Results]:
    """Replace what is kept of these logs, and return all that is kept."""
    merged = read_results(lake) | dict(results)
    content = json.dumps({log: dataclasses.asdict(found) for log, found in sorted(merged.items())}, indent=1)
    storage.put(storage.join(lake, RESULTS_FILE), content.encode())
    return merged


def results_of(report: JobReport, ranges: Mapping[str, tuple[int, int]]) -> dict[str, Results]:
    """What the job reported, by log.

    An expectation that names no log it fails on fails for all of them; a report without expectations gives each log
    an empty result, which fails as well.
    """
    found: dict[str, list[Outcome]] = {log: [] for log in ranges}
    for item in report.plan.get("expectations", ()):
        failing = set(item["failing"])
        for log, outcomes in found.items():
            success = item["success"] is True or (bool(failing) and log not in failing)
            outcomes.append(Outcome(str(item["name"]), success, str(item["observed"]), str(item["severity"])))
    return {log: Results(*ranges[log], tuple(outcomes)) for log, outcomes in found.items()}


def page_of(lake: str, report: JobReport | None) -> str | None:
    """The HTML page that this run made, else the list of all pages of the lake; None where there is none."""
    made = report.metrics.get("data_docs") if report is not None else None
    index = storage.join(lake, DOCS_INDEX)
    return str(made) if made else index if storage.exists(index) else None
