"""Findings as table rows, each recorded once: a run that finds the same again writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from logcore.logs.model.findings import Finding, Severity
from spark_jobs.contracts import Scalar
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import TableVersions
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.retries import retried
from spark_jobs.lake.table_specs import FINDINGS
from spark_jobs.placed_finding import PlacedFinding

_PLACE = ("log", "topic", "partition", "segment_id")


def _row(placed: PlacedFinding, run_id: str, as_of_ms: int) -> dict[str, Scalar]:
    where = {name: getattr(placed, name) for name in _PLACE}
    said = asdict(placed.finding) | {"severity": str(placed.finding.severity)}
    return {"finding_id": placed.finding_id, "run_id": run_id, **where, **said, "as_of_ms": as_of_ms}


def from_plain(value: Mapping[str, Any]) -> Finding:
    """Return a finding from the plain values of a report."""
    return Finding(**dict(value) | {"severity": Severity(value["severity"])})


def read_findings(lake: str) -> list[PlacedFinding]:
    """Return all findings of the table, with those of the past."""
    columns = [name for name in FINDINGS.names if name not in ("finding_id", "run_id", "as_of_ms")]
    placed = []
    for row in read_rows(lake, "findings", columns).to_pylist():
        place = {name: row.pop(name) for name in _PLACE}
        placed.append(PlacedFinding(from_plain(row), **place))
    return placed


def unseen(lake: str, found: Iterable[PlacedFinding]) -> list[PlacedFinding]:
    """Return findings that the table does not have yet, each once."""
    by_id = {placed.finding_id: placed for placed in found}
    if not by_id:
        return []
    ids = sorted(by_id)
    seen = read_rows(lake, "findings", ["finding_id"], [("finding_id", "in", ids)])["finding_id"].to_pylist()
    return [by_id[i] for i in by_id.keys() - set(seen)] if seen else list(by_id.values())


def record(lake: str, found: Iterable[PlacedFinding], run_id: str, as_of_ms: int) -> list[PlacedFinding]:
    """Append the new findings; return them.

    Raises:
        ConcurrentChange: Other runs kept recording findings meanwhile.
    """
    found = list(found)

    def attempt() -> list[PlacedFinding]:
        expected = TableVersions.of(lake, "findings")
        new = sorted(unseen(lake, found), key=lambda placed: placed.finding_id)  # another run may have recorded some
        columns = pa.Table.from_pylist([_row(placed, run_id, as_of_ms) for placed in new], schema=FINDINGS)
        commits.append(lake, "findings", columns, run_id, expected=expected)
        return new

    return retried(attempt)
