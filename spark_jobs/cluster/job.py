"""``cluster``: what the internal topics at the sources say, in tables of the lake.

    read      the internal topics at the sources                              (driver)
    compare   with the rows of the tables: only what differs is written
    commit    commits of offsets are appended with their frontier; all other rows are replaced by internal log

Rows of an internal log that no source has stay as they are. Each table is one commit, so a job that is killed is run
again: it finds the same rows, and writes those that are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from logcore.errors import LogError
from logcore.logs.model.findings import Finding
from logcore.reading.notes import Notes
from logcore.topics.internal_topics import InternalTopic
from spark_jobs.cluster.commit_rows import COMMITS, new_commits
from spark_jobs.cluster.coordinator_rows import remote_rows, transactional_rows
from spark_jobs.cluster.group_rows import first_open, group_rows
from spark_jobs.cluster.internal_sources import ClusterLogs, Row, as_text, clusters_at
from spark_jobs.cluster.kept_history import with_history
from spark_jobs.cluster.metadata_rows import TABLES_OVER_TIME, metadata_rows
from spark_jobs.contracts import ClusterConfig, JobReport
from spark_jobs.lake.cluster_columns import CLUSTER_TABLES, SOURCE, ClusterTable
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.tables import read_rows
from spark_jobs.lake.errors import JobError
from spark_jobs.lake.ledger import finding_rows
from spark_jobs.lake.ledger.finding_rows import PlacedFinding
from spark_jobs.lake.segments import archive
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.tasks.executor import Executor

__all__ = ["apply", "plan"]

_BY_NAME = {table.name: table for table in CLUSTER_TABLES}
_OF_GROUPS = ("cluster_group_offsets", "cluster_groups", "cluster_group_members")


@dataclass(slots=True)
class ClusterPlan:
    """What differs from the tables.

    Attributes:
        commits: New commits of offsets.
        guards: Their frontiers.
        replaced: Rows by table, with the internal logs whose rows they replace.
        findings: What is wrong, each once.
        logs: Internal logs that were read.
        waits: Internal logs that end before what the table has, and why.
    """

    commits: list[pa.Table] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    replaced: dict[str, tuple[tuple[str, ...], pa.Table]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    logs: tuple[str, ...] = ()
    waits: dict[str, str] = field(default_factory=dict)

    @property
    def commit_count(self) -> int:
        """Number of new commits."""
        return sum(rows.num_rows for rows in self.commits)

    @property
    def is_empty(self) -> bool:
        """Whether the tables have everything."""
        return not (self.guards or self.replaced or self.findings)

    @property
    def needs_executor(self) -> bool:
        """Whether there are tasks: the driver reads internal topics by itself."""
        return False

    def as_dict(self) -> dict[str, object]:
        """The plan as plain values."""
        return {
            "logs": list(self.logs),
            "rows": {COMMITS: self.commit_count} | {name: rows.num_rows for name, (_, rows) in self.replaced.items()},
            "waits": dict(self.waits),
            "findings": [finding.message for finding in self.findings],
        }


def plan(config: ClusterConfig) -> ClusterPlan:
    """Read the internal topics and compare them with the tables.

    Raises:
        JobError: An object store cannot be read.
        TableUnreadable: A table is damaged.
    """
    made, notes = ClusterPlan(), Notes()
    found: dict[str, list[Row]] = {table.name: [] for table in CLUSTER_TABLES}
    sources: dict[str, set[str]] = {table.name: set() for table in CLUSTER_TABLES}
    try:
        clusters = clusters_at(config.sources, config.cluster)
    except LogError as error:
        raise JobError(str(error)) from error
    for cluster in clusters:
        if not config.only_metadata:
            _read_groups(config.lake, cluster, made, found, sources, notes)
            _read_coordinators(cluster, found, sources, notes)
        _read_metadata(config.lake, cluster, made, found, sources, notes)
    made.logs = tuple(sorted({log for logs in sources.values() for log in logs} | set(made.waits)))
    for table in CLUSTER_TABLES:
        if table.name != COMMITS and sources[table.name]:
            _compare(config.lake, table, found[table.name], tuple(sorted(sources[table.name])), made)
    unseen = finding_rows.unseen(config.lake, [PlacedFinding(finding) for finding in notes.findings])
    made.findings = tuple(placed.finding for placed in unseen)
    return made


def apply(plan: ClusterPlan, config: ClusterConfig, executor: Executor | None) -> JobReport:
    """Write what differs.

    Raises:
        ConcurrentChange: Another process committed to a table meanwhile; the plan has to be made again.
    """
    if plan.guards:
        of_logs = sorted((rows for rows in plan.commits if rows.num_rows), key=lambda rows: str(rows[SOURCE][0]))
        rows = pa.concat_tables([TABLES[COMMITS].schema.empty_table(), *of_logs])
        commits.append(config.lake, COMMITS, rows, config.run_id, plan.guards)
    for name, (logs, rows) in plan.replaced.items():
        commits.replace(config.lake, name, (SOURCE, logs), rows, config.run_id)
    placed = [PlacedFinding(finding) for finding in plan.findings]
    found = finding_rows.record(config.lake, placed, config.run_id, config.as_of_ms)
    return JobReport(
        job=config.JOB,
        run_id=config.run_id,
        lake=config.lake,
        findings=tuple({name: value for name, value in row.items() if name != "run_id"} for row in found),
        plan=plan.as_dict(),
        metrics={"commits": plan.commit_count, "tables": len(plan.replaced)},
    )


def _read_groups(
    lake: str,
    cluster: ClusterLogs,
    made: ClusterPlan,
    found: dict[str, list[Row]],
    sources: dict[str, set[str]],
    notes: Notes,
) -> None:
    logs = cluster.of(InternalTopic.CONSUMER_OFFSETS)
    frontiers = {log: f"{cluster.place(log)[SOURCE]}/{log.topic_id or ''}" for log in logs}
    recorded = commits.versions(lake, COMMITS, list(frontiers.values()))
    for log, application in frontiers.items():
        place = str(cluster.place(log)[SOURCE])
        for name in (COMMITS, *_OF_GROUPS):
            sources[name].add(place)
        planned = recorded[application]
        new = new_commits(cluster, log, planned or 0, notes)
        if new.end > (planned or 0):
            made.commits.append(new.rows)
            made.guards.append(Guard(application, planned, new.end))
    if not logs:
        return
    ended = read_rows(lake, "transactions", ["topic", "partition", "first_offset"], [("state", "in", ["open"])])
    oldest = first_open(ended.to_pylist())
    known = {(log.topic, log.partition) for log in archive.read_logs(lake).values()}
    opened = {place: oldest.get(place) for place in known}
    for name, rows in group_rows(cluster, opened, notes).items():
        found[name] += rows


def _read_coordinators(
    cluster: ClusterLogs, found: dict[str, list[Row]], sources: dict[str, set[str]], notes: Notes
) -> None:
    for topic, name, rows_of in (
        (InternalTopic.TRANSACTION_STATE, "cluster_transactional_ids", transactional_rows),
        (InternalTopic.REMOTE_LOG_METADATA, "cluster_remote_segments", remote_rows),
    ):
        for log in cluster.of(topic):
            sources[name].add(str(cluster.place(log)[SOURCE]))
            found[name] += rows_of(cluster, log, notes)


def _read_metadata(
    lake: str,
    cluster: ClusterLogs,
    made: ClusterPlan,
    found: dict[str, list[Row]],
    sources: dict[str, set[str]],
    notes: Notes,
) -> None:
    for log in cluster.of(InternalTopic.CLUSTER_METADATA):
        place = str(cluster.place(log)[SOURCE])
        read = metadata_rows(cluster, log, notes)
        known = {name: _known(lake, name, (place,)).to_pylist() for name in TABLES_OVER_TIME}
        reached = max((int(row["valid_from_offset"]) for rows in known.values() for row in rows), default=-1)
        if reached >= read.end:
            made.waits[place] = f"the tables have offset {reached}, and the source ends at {read.end}"
            continue
        for name in TABLES_OVER_TIME:
            sources[name].add(place)
            identity = _BY_NAME[name].identity
            present = _table(_BY_NAME[name], read.rows[name]).to_pylist()
            found[name] += with_history(known[name], present, identity, read.start)


def _compare(lake: str, table: ClusterTable, rows: Sequence[Row], logs: tuple[str, ...], made: ClusterPlan) -> None:
    """Plan to replace the rows of these internal logs, if they differ."""
    wanted = _table(table, rows)
    if not wanted.equals(_sorted(table, _known(lake, table.name, logs))):
        made.replaced[table.name] = (logs, wanted)


def _known(lake: str, name: str, logs: tuple[str, ...]) -> pa.Table:
    schema = TABLES[name].schema
    return read_rows(lake, name, schema.names, [(SOURCE, "in", list(logs))]).cast(schema)


def _table(table: ClusterTable, rows: Sequence[Row]) -> pa.Table:
    schema = TABLES[table.name].schema
    plain = [{name: as_text(row.get(name)) for name in schema.names} for row in rows]
    return _sorted(table, pa.Table.from_pylist(plain, schema=schema))


def _sorted(table: ClusterTable, rows: pa.Table) -> pa.Table:
    return rows.sort_by([(name, "ascending") for name in table.row_order]).combine_chunks()
