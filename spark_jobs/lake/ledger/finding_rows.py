"""Findings as table rows, each said once: a run that sees the same thing again writes nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from logcore.logs.model.findings import Finding, Severity
from spark_jobs.contracts import Scalar
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.tables import FINDINGS, read_rows
from spark_jobs.lake.errors import ConcurrentChange

ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class PlacedFinding:
    """A finding and what it is about."""

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
        """The ``findings`` row."""
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
    """A finding that came from a worker as plain values."""
    return Finding(**dict(value) | {"severity": Severity(value["severity"])})


def unseen(lake: str, found: Iterable[PlacedFinding]) -> list[PlacedFinding]:
    """Those that the table does not have yet, first mention of each."""
    by_id = {placed.finding_id: placed for placed in found}
    if not by_id:
        return []
    ids = sorted(by_id)
    seen = read_rows(lake, "findings", ["finding_id"], [("finding_id", "in", ids)])["finding_id"].to_pylist()
    return [by_id[i] for i in by_id.keys() - set(seen)] if seen else list(by_id.values())


def record(lake: str, found: Iterable[PlacedFinding], run_id: str, as_of_ms: int) -> list[dict[str, Scalar]]:
    """Append the unseen ones; returns their rows.

    Raises:
        ConcurrentChange: others kept recording findings meanwhile.
    """
    found = list(found)
    for attempt in range(ATTEMPTS):
        standing = commits.Standing.of(lake, "findings")
        rows = [placed.row(run_id, as_of_ms) for placed in unseen(lake, found)]
        rows.sort(key=lambda row: str(row["finding_id"]))
        columns = pa.Table.from_pylist(rows, schema=FINDINGS)
        try:
            commits.append(lake, "findings", columns, run_id, standing=standing)
        except ConcurrentChange:  # what another run said meanwhile is not said again
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return rows
    raise AssertionError("unreachable")
