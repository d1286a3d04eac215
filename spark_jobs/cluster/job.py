"""``cluster``: what the internal topics at the sources say, in tables of the lake.

    read      the internal topics at the sources                              (driver)
    compare   with the rows of the tables: only what differs is written
    commit    commits of offsets are appended with their frontier; all other rows are replaced by internal log

Rows of an internal log that no source has stay as they are, and so do those of a log of which a segment could not be
opened. But if records of `__cluster_metadata` are lost, its rows without an end become doubtful. Each table is one
commit, so a job that is killed is run again: it finds the same rows, and writes those that are missing. After an intake
that found nothing new the sources are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from logcore.errors import LogError
from logcore.logs.model.findings import Finding, Severity
from logcore.reading.notes import Notes
from logcore.storage.discovery import shown
from logcore.topics.internal_topics import InternalTopic
from spark_jobs.cluster.commit_rows import COMMITS
from spark_jobs.cluster.coordinator_rows import remote_rows, transactional_rows
from spark_jobs.cluster.group_rows import first_open, group_rows
from spark_jobs.cluster.internal_sources import NOT_READ, ClusterLogs, Row, clusters_of, logs_at
from spark_jobs.cluster.kept_history import reached_offset, with_doubt, with_history
from spark_jobs.cluster.metadata_rows import TABLES_OVER_TIME, metadata_rows
from spark_jobs.cluster.new_commits import NewCommits
from spark_jobs.cluster.source_directories import source_directories
from spark_jobs.cluster.unnamed_rows import both_names, known_rows
from spark_jobs.contracts import ClusterConfig, JobReport
from spark_jobs.errors import JobError
from spark_jobs.lake.cluster import last_reading
from spark_jobs.lake.cluster_columns import CLUSTER_TABLES, SOURCE, ClusterTable
from spark_jobs.lake.delta.commits import row_commits
from spark_jobs.lake.delta.tables.table_rows import read_rows
from spark_jobs.lake.ledger import finding_rows
from spark_jobs.lake.segments import archive
from spark_jobs.lake.setup.identity import claim, cluster_of_logs, has_cluster
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.outlines import ClusterFinding, ClusterOutline, SourceDirectory
from spark_jobs.placed_finding import PlacedFinding
from spark_jobs.tasks.executor import Executor

__all__ = ["apply", "plan"]

_BY_NAME = {table.name: table for table in CLUSTER_TABLES}
_OF_GROUPS = ("cluster_group_offsets", "cluster_groups", "cluster_group_members")
_BEYOND_LOG_END = "commit-beyond-log-end"
_NOT_RECORDED = "source-changed"
"""Rule of findings about files that changed while they were read: the next run reads them again."""


@dataclass(slots=True)
class ClusterPlan:
    """What differs from the tables.

    Attributes:
        commits: New commits of offsets.
        replaced: Rows by table, with the internal logs whose rows they replace.
        findings: What is wrong and was not recorded yet, each once.
        logs: Internal logs that were read.
        waits: Internal logs whose rows stay as they are, and why.
        doubtful: Those of them of which records are lost or cannot be read: their rows without an end are doubtful.
        beyond_log_end: Commits beyond the end of a log, in words.
        directories: The log directories at the sources.
        claimed: The id that the lake gets, because rows get it; None: it has one, or no source states one.
        basis: What the reading depends on; None: it is not kept.
    """

    commits: NewCommits = field(default_factory=NewCommits)
    replaced: dict[str, tuple[tuple[str, ...], pa.Table]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    logs: tuple[str, ...] = ()
    waits: dict[str, str] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)
    beyond_log_end: tuple[str, ...] = ()
    directories: tuple[SourceDirectory, ...] = ()
    claimed: str | None = None
    basis: last_reading.Basis | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the tables have everything."""
        is_written = self.commits.guards or self.commits.changed or self.replaced
        return not (is_written or self.findings or self.claimed)

    @property
    def task_bytes(self) -> int | None:
        """Bytes that the tasks read; None: there are no tasks."""
        return None

    @property
    def outline(self) -> ClusterOutline:
        """What a report and a dry run say of it."""
        return ClusterOutline(
            {COMMITS: self.commits.changed} | {name: rows.num_rows for name, (_, rows) in self.replaced.items()},
            tuple(ClusterFinding(each.rule, each.severity, each.message) for each in self.findings),
            self.logs,
            self.waits,
            self.beyond_log_end,
            self.directories,
        )


def plan(config: ClusterConfig) -> ClusterPlan:
    """Read the internal topics and compare them with the tables.

    Raises:
        JobError: An object store cannot be read.
        LakeRefused: The lake holds another cluster than the sources.
        TableUnreadable: A table is damaged.
        UsageError: The sources are of several clusters.
    """
    if config.only_metadata:  # it says less than what is kept
        return _read(config)
    basis = last_reading.basis_of(config)
    found = last_reading.recall(config.lake, basis) if config.only_after_intake else None
    if found is not None:
        return ClusterPlan(
            logs=found.logs, waits=dict(found.waits), beyond_log_end=found.beyond_log_end, directories=found.directories
        )
    made = _read(config)
    made.basis = basis
    if made.is_empty:
        last_reading.keep(config.lake, basis, made.outline)
    return made


def _read(config: ClusterConfig) -> ClusterPlan:
    made, notes = ClusterPlan(), Notes()
    found: dict[str, list[Row]] = {table.name: [] for table in CLUSTER_TABLES}
    sources: dict[str, set[str]] = {table.name: set() for table in CLUSTER_TABLES}
    try:
        logs = logs_at(config.sources)
    except LogError as error:
        raise JobError(str(error)) from error
    made.directories = source_directories(logs)
    held = cluster_of_logs(config.lake, logs, config.cluster)
    for cluster in clusters_of(logs, held):
        if not config.only_metadata:
            made.commits.add(config.lake, cluster, cluster.of(InternalTopic.CONSUMER_OFFSETS), notes)
            _read_groups(config.lake, cluster, found, sources, notes)
            _read_coordinators(cluster, found, sources, notes)
        _read_metadata(config.lake, cluster, made, found, sources, notes)
        made.waits |= _not_opened(cluster, notes)
    made.logs = tuple(sorted({log for logs in sources.values() for log in logs} | set(made.waits)))
    if made.logs and held is not None and not has_cluster(config.lake):
        made.claimed = held
    for table in CLUSTER_TABLES:
        places = sources[table.name] - set(made.waits)
        rows = [row for row in found[table.name] if row[SOURCE] in places]
        in_doubt = made.doubtful & set(made.waits) if table.name in TABLES_OVER_TIME else set()
        if in_doubt:
            places |= in_doubt
            rows += with_doubt(known_rows(config.lake, table.name, tuple(in_doubt)).to_pylist())
        if table.name != COMMITS and places:
            _compare(config.lake, table, rows, tuple(sorted(places)), made)
    made.beyond_log_end = tuple(each.message for each in notes.findings if each.rule == _BEYOND_LOG_END)
    recorded = [each for each in notes.findings if each.severity is not Severity.INFO and each.rule != _NOT_RECORDED]
    unseen = finding_rows.unseen(config.lake, [PlacedFinding(finding) for finding in recorded])
    made.findings = tuple(placed.finding for placed in unseen)
    return made


def _not_opened(cluster: ClusterLogs, notes: Notes) -> dict[str, str]:
    """Internal logs of which a segment was not read to its end, and why."""
    logs = [log for log in cluster.logs if log.topic_partition.topic in tuple(InternalTopic)]
    waits = {log: f"{len(log.unreadable)} of its segments cannot be read" for log in logs if log.unreadable}
    for finding in notes.findings:
        if finding.rule in NOT_READ and finding.file is not None:
            waits |= {log: finding.message for log in logs if finding.file.startswith(shown(log.directory) + "/")}
    return {str(cluster.place(log)[SOURCE]): why for log, why in waits.items()}


def apply(plan: ClusterPlan, config: ClusterConfig, executor: Executor | None) -> JobReport[ClusterOutline]:
    """Write what differs.

    Raises:
        ConcurrentChange: Another process committed to a table meanwhile. Plan and run again.
        LakeRefused: Meanwhile the lake got another cluster.
    """
    if plan.claimed is not None:  # otherwise a later run of a source that states none would write these rows again
        claim(config.lake, plan.claimed)
    new = plan.commits
    rows = new.table()
    if new.replaced:
        where = (SOURCE, tuple(new.replaced))
        row_commits.replace(config.lake, COMMITS, where, rows, config.run_id, new.guards, new.expected)
    elif new.guards or new.changed:
        row_commits.append(config.lake, COMMITS, rows, config.run_id, new.guards, new.expected)
    for name, (logs, replaced) in plan.replaced.items():
        row_commits.replace(config.lake, name, (SOURCE, logs), replaced, config.run_id)
    placed = [PlacedFinding(finding) for finding in plan.findings]
    found = finding_rows.record(config.lake, placed, config.run_id, config.as_of_ms)
    if plan.basis is not None:
        last_reading.keep(config.lake, last_reading.written_basis(plan.basis, config), plan.outline)
    return JobReport.of(
        config,
        plan.outline,
        findings=tuple(found),
        metrics={"commits": new.changed, "tables": len(plan.replaced)},
    )


def _read_groups(
    lake: str, cluster: ClusterLogs, found: dict[str, list[Row]], sources: dict[str, set[str]], notes: Notes
) -> None:
    logs = cluster.of(InternalTopic.CONSUMER_OFFSETS)
    if not logs:
        return
    for name in (COMMITS, *_OF_GROUPS):
        sources[name] |= {str(cluster.place(log)[SOURCE]) for log in logs}
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
        seen = Notes()
        read = metadata_rows(cluster, log, seen)
        for finding in seen.findings:
            notes.say(finding)
        if read.lost_from is not None and not any(finding.rule == _NOT_RECORDED for finding in seen.findings):
            made.doubtful.add(place)
        known = {name: known_rows(lake, name, (place,)).to_pylist() for name in TABLES_OVER_TIME}
        reached = reached_offset(row for rows in known.values() for row in rows)
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
    wanted, names, schema = _table(table, rows), both_names(logs), TABLES[table.name].schema
    known = read_rows(lake, table.name, schema.names, [(SOURCE, "in", list(names))]).cast(schema)
    if not wanted.equals(_sorted(table, known)):
        made.replaced[table.name] = (names, wanted)


def _table(table: ClusterTable, rows: Sequence[Row]) -> pa.Table:
    schema = TABLES[table.name].schema
    plain = [{name: row.get(name) for name in schema.names} for row in rows]
    return _sorted(table, pa.Table.from_pylist(plain, schema=schema))


def _sorted(table: ClusterTable, rows: pa.Table) -> pa.Table:
    return rows.sort_by([(name, "ascending") for name in table.row_order]).combine_chunks()
