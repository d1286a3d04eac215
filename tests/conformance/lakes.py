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
from spark_jobs.contracts import IngestConfig, PublishConfig, ValidateConfig
from tests.conformance.conftest import Corpus
from tests.conformance.oracles import Consumed
from tests.conformance.snapshots import Snapshot

AS_OF_MS = 1_900_000_000_000
TABLE_OF = {"read_committed": "records", "read_uncommitted": "records_uncommitted"}
TIMESTAMP_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
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
        logs: dict[str, list[Consumed]] = {}
        for row in self.rows(TABLE_OF[isolation_level]):
            logs.setdefault(f"{row['topic']}-{row['partition']}", []).append(as_consumed(row))
        return {name: sorted(records, key=lambda record: record.offset) for name, records in logs.items()}

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
        policies = self.folder / f"{salvage}-{snapshot.case}.yaml"
        cleanup = "cleanup.policy: compact, " if snapshot.case.startswith(COMPACTED) else ""
        policies.write_text(
            "topics:\n"
            f'  "*": {{{cleanup}salvage: {salvage}}}\n'
            f'  "__*": {{cleanup.policy: compact, salvage: {salvage}}}\n'
        )
        lake, said = str(path), str(policies)
        launch.run("ingest", IngestConfig(lake, (str(self.corpus.directory(snapshot)),), "run", AS_OF_MS))
        launch.run("validate", ValidateConfig(lake, "run", AS_OF_MS, policies=said))
        publish = PublishConfig(
            lake, "run", AS_OF_MS, include_internal=True, policies=said, isolation_level="read_uncommitted"
        )
        launch.run("publish", publish)
        return CorpusLake(path)


def as_consumed(row: dict[str, Any]) -> Consumed:
    """A row of `records` as a real consumer would have told it."""
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
