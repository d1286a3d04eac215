"""One turn of the jobs over a source and what the lake says afterwards, read with `deltalake` alone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from spark_jobs import launch
from spark_jobs.contracts import IngestConfig, JobReport, PublishConfig, ValidateConfig
from spark_jobs.ingest.intake_results import IntakeResults
from spark_jobs.policies.policies_file import read_policies

AS_OF_MS = 1_800_000_000_000
OF_OURS = {"userMetadata": '{"run_id": "another run"}'}
"""Metadata of a commit that no other program made."""


class Lake:
    """A lake in a test's folder; every turn is a run of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.turns = 0

    def turn(
        self,
        *sources: Path,
        policies: str | None = None,
        publish: bool = True,
        results: IntakeResults | None = None,
        **ingest: Any,
    ) -> dict[str, JobReport]:
        """ingest, validate, publish, which hand ``results`` to one another."""
        self.turns += 1
        lake, run_id = str(self.path), f"run-{self.turns}"
        paths = tuple(str(source) for source in sources)
        reports = [
            launch.run(config, results=results)
            for config in (
                IngestConfig(lake, paths, run_id, AS_OF_MS, policies=read_policies(policies), **ingest),
                ValidateConfig(lake, run_id, AS_OF_MS, policies=read_policies(policies)),
                *([PublishConfig(lake, run_id, AS_OF_MS, policies=read_policies(policies))] if publish else []),
            )
        ]
        return {report.job: report for report in reports}

    def rows(self, name: str) -> list[dict[str, Any]]:
        """All rows of a table; none where it was never created."""
        path = self.path / "tables" / name
        if not (path / "_delta_log").is_dir():
            return []
        return DeltaTable(str(path)).to_pyarrow_table().to_pylist()

    def versions(self) -> dict[str, int]:
        """Version of every table."""
        return {path.name: DeltaTable(str(path)).version() for path in sorted((self.path / "tables").iterdir())}

    def published(self, topic: str, partition: int = 0) -> dict[int, tuple[bytes | None, bytes | None]]:
        """Key and value by offset; an offset published twice fails here."""
        rows = [r for r in self.rows("records") if (r["topic"], r["partition"]) == (topic, partition)]
        found = {row["offset"]: (row["key"], row["value"]) for row in rows}
        assert len(found) == len(rows), "an offset was published twice"
        return found

    def ledger(self, topic: str, partition: int = 0) -> list[tuple[int, int, str]]:
        """(start, end, state) in offset order."""
        rows = [r for r in self.rows("offset_ledger") if (r["topic"], r["partition"]) == (topic, partition)]
        return sorted((r["start_offset"], r["end_offset"], r["state"]) for r in rows)

    def rules(self) -> set[str]:
        """Every rule that has a finding."""
        return {row["rule"] for row in self.rows("findings")}

    def stopped(self) -> dict[str, str | None]:
        """Why each topic partition stopped."""
        return {f"{row['topic']}-{row['partition']}": row["stopped"] for row in self.rows("logs")}

    def archived_bytes(self, topic: str) -> bytes:
        """The ingested bytes of partition 0, in offset order."""
        rows = [r for r in self.rows("segments") if r["topic"] == topic and r["generation"] == 0]
        return b"".join((self.path / row["path"]).read_bytes() for row in sorted(rows, key=lambda r: r["base_offset"]))


def states(ledger: Iterable[tuple[int, int, str]]) -> dict[str, int]:
    """Offsets by state."""
    counts: dict[str, int] = {}
    for start, end, state in ledger:
        counts[state] = counts.get(state, 0) + end - start
    return counts
