"""Findings as table rows, each recorded once: a run that finds the same again writes nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from logcore.logs.model.findings import Finding, Severity
from spark_jobs.contracts import Scalar
from spark_jobs.lake.delta.commits import row_commits
from spark_jobs.lake.delta.commits.commit_guards import TableVersions
from spark_jobs.lake.delta.tables.table_rows import read_rows
from spark_jobs.lake.retries import retried
from spark_jobs.lake.table_schemas import FINDINGS


@dataclass(frozen=True, slots=True)
class PlacedFinding:
    """A finding, and the log and segment that it is about."""

    finding: Finding
    log: str | None = None
    topic: str | None = None
    partition: int | None = None
    segment_id: str | None = None

    @property
    def finding_id(self) -> str:
        """Digest of rule, place and message."""
        f = self.finding
        place = [self.log, self.topic, self.partition, self.segment_id, f.file, f.position, f.start_offset]
        return hashlib.sha256(json.dumps([f.rule, *place, f.end_offset, f.message]).encode()).hexdigest()[:32]

    def row(self, run_id: str, as_of_ms: int) -> dict[str, Scalar]:
        """Return the ``findings`` row."""
        f = self.finding
        return {
            "finding_id": self.finding_id,
            "run_id": run_id,
            "rule": f.rule,
            "severity": str(f.severity),
            "log": self.log,
            "topic": self.topic,
            "partition": self.partition,
            "segment_id": self.segment_id,
            "file": f.file,
            "position": f.position,
            "nbytes": f.nbytes,
            "start_offset": f.start_offset,
            "end_offset": f.end_offset,
            "message": f.message,
            "as_of_ms": as_of_ms,
        }


def from_plain(value: Mapping[str, Any]) -> Finding:
    """Return a finding from the plain values of a report."""
    return Finding(**dict(value) | {"severity": Severity(value["severity"])})


def read_findings(lake: str) -> list[PlacedFinding]:
    """Return all findings of the table, with those of the past."""
    columns = [name for name in FINDINGS.names if name not in ("finding_id", "run_id", "as_of_ms")]
    placed = []
    for row in read_rows(lake, "findings", columns).to_pylist():
        place = {name: row.pop(name) for name in ("log", "topic", "partition", "segment_id")}
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


def record(lake: str, found: Iterable[PlacedFinding], run_id: str, as_of_ms: int) -> list[dict[str, Scalar]]:
    """Append the new findings; return their rows.

    Raises:
        ConcurrentChange: Other runs kept recording findings meanwhile.
    """
    found = list(found)

    def attempt() -> list[dict[str, Scalar]]:
        expected = TableVersions.of(lake, "findings")
        rows = [placed.row(run_id, as_of_ms) for placed in unseen(lake, found)]  # another run may have recorded some
        rows.sort(key=lambda row: str(row["finding_id"]))
        columns = pa.Table.from_pylist(rows, schema=FINDINGS)
        row_commits.append(lake, "findings", columns, run_id, expected=expected)
        return rows

    return retried(attempt)
