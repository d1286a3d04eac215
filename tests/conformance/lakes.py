"""Lakes made of the corpus: a snapshot goes through ingest, validate and publish once, and three readers read the rows.

All jobs run in this process and share its Spark session. Nothing here looks at the log directory itself: what a row
must be is what a real consumer said (`oracles`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable

from spark_jobs import launch
from spark_jobs.contracts import IngestConfig, JobConfig, PublishConfig, ValidateConfig
from spark_jobs.policies.policies_file import read_policies
from tests.conformance.conftest import Corpus
from tests.conformance.oracles import Consumed
from tests.conformance.snapshots import Snapshot

AS_OF_MS = 1_900_000_000_000
TABLE_OF = {"read_committed": "records", "read_uncommitted": "records_uncommitted"}
TIMESTAMP_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
EVERYTHING: dict[str, Any] = {"include_internal": True, "isolation_level": "read_uncommitted"}
"""Fields of `PublishConfig`, with which all topics are published at both isolation levels."""
COMPACTED = ("compact-", "compaction-", "internal-topics-")
"""Cases whose topics are compacted: their brokers' cleaner made the gaps. Kafka's own topics are in every case."""

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class CorpusLake:
    """A lake of one snapshot, all topics published, at both isolation levels."""

    path: Path

    def has(self, table: str) -> bool:
        """Whether the table was ever written."""
        return (self.path / "tables" / table / "_delta_log").is_dir()

    def rows(self, table: str) -> Rows:
        """All rows, read with `deltalake`; none where there is no table."""
        return _through_deltalake(self._table(table)).to_pylist() if self.has(table) else []

    def read(self, table: str) -> dict[str, Rows]:
        """All rows by reader, in the order of topic, log, partition and offset."""
        found = {}
        for name, reader in READERS.items():
            rows = reader(self._table(table)).to_pylist() if self.has(table) else []
            found[name] = sorted(rows, key=lambda row: (row["topic"], row["log_id"], row["partition"], row["offset"]))
        return found

    def consumed(self, isolation_level: str) -> dict[str, list[Consumed]]:
        """What `deltalake` reads, as a consumer says it, by topic partition and in offset order."""
        return by_log(self.rows(TABLE_OF[isolation_level]))

    def _table(self, name: str) -> str:
        return str(self.path / "tables" / name)


@dataclass(frozen=True, slots=True)
class Lakes:
    """Lakes by snapshot and salvage, each made on first use."""

    corpus: Corpus
    folder: Path
    _made: dict[tuple[Snapshot, str], CorpusLake] = field(default_factory=dict)

    def of(self, snapshot: Snapshot, salvage: str = "strict") -> CorpusLake:
        """The lake of a snapshot; `salvage` as a policy has it."""
        key = (snapshot, salvage)
        if key not in self._made:
            self._made[key] = self._make(snapshot, salvage)
        return self._made[key]

    def _make(self, snapshot: Snapshot, salvage: str) -> CorpusLake:
        path = self.folder / salvage / snapshot.case / snapshot.name
        for config in journey(snapshot, str(self.corpus.directory(snapshot)), str(path), self.folder, salvage):
            launch.run(config)
        return CorpusLake(path)


def journey(snapshot: Snapshot, source: str, lake: str, folder: Path, salvage: str = "strict") -> list[JobConfig]:
    """The jobs that publish all topics of a snapshot at both isolation levels.

    Args:
        snapshot: What the source is.
        source: Where it lies, on a disk or an object store.
        lake: Where the lake lies.
        folder: Where the policies are written.
        salvage: As a policy has it.
    """
    policies = write_policies(snapshot, folder, salvage)
    return [
        IngestConfig(lake, (source,), "run", AS_OF_MS),
        ValidateConfig(lake, "run", AS_OF_MS, policies=read_policies(policies)),
        PublishConfig(lake, "run", AS_OF_MS, policies=read_policies(policies), **EVERYTHING),
    ]


def write_policies(snapshot: Snapshot, folder: Path, salvage: str = "strict") -> str:
    """Write the policies for a snapshot into a folder; returns the path."""
    policies = folder / f"{salvage}-{snapshot.case}.yaml"
    cleanup = "cleanup.policy: compact, " if snapshot.case.startswith(COMPACTED) else ""
    policies.write_text(
        f'topics:\n  "*": {{{cleanup}salvage: {salvage}}}\n  "__*": {{cleanup.policy: compact, salvage: {salvage}}}\n'
    )
    return str(policies)


def by_log(rows: Rows) -> dict[str, list[Consumed]]:
    """Rows of `records` as a consumer says them, by topic partition and in offset order."""
    logs: dict[str, list[Consumed]] = {}
    for row in rows:
        logs.setdefault(f"{row['topic']}-{row['partition']}", []).append(as_consumed(row))
    return {name: sorted(records, key=lambda record: record.offset) for name, records in logs.items()}


def as_consumed(row: dict[str, Any]) -> Consumed:
    """A row of `records` as a real consumer would have reported it."""
    return Consumed(
        row["offset"],
        row["timestamp_ms"],
        TIMESTAMP_TYPES[row["timestampType"]],
        row["key"],
        row["value"],
        tuple((header["key"], header["value"]) for header in row["headers"] or ()),
        row["leader_epoch"],
    )


def _through_deltalake(path: str) -> pa.Table:
    return DeltaTable(path).to_pyarrow_table()


def _through_duckdb(path: str) -> pa.Table:
    files = DeltaTable(path).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.from_arrow(files).to_arrow_table()


def _through_polars(path: str) -> pa.Table:
    return pl.read_delta(path).to_arrow()


READERS = {"deltalake": _through_deltalake, "DuckDB": _through_duckdb, "Polars": _through_polars}
