"""``cluster``: what the internal topics at the sources say, in tables of the lake.

    read      the internal topics at the sources, a task or two a log         (workers; the plan, if they are small)
    compare   with the rows of the tables: only what differs is written       (driver)
    commit    commits of offsets are appended with their frontier; all other rows are replaced by internal log

Rows of an internal log that no source has stay as they are, and so do those of a log of which a segment could not be
opened. But if records of `__cluster_metadata` are lost, its rows without an end become doubtful. Each table is one
commit, so a job that is killed is run again: it finds the same rows, and writes those that are missing. After an intake
that found nothing new the sources are not read.

A broker removes old records of the metadata; a snapshot has only the state after them. So rows that ended before stay
as they are, and rows that reach into the log begin where the table says. A tentative row becomes committed if the
snapshot has the same state. Otherwise it stays tentative: its records are gone, so nobody can compare them.

Rows of the groups in `__consumer_offsets`, with their offsets, members and lag.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from logcore.errors import LogError
from logcore.logs.model.findings import Finding, Severity
from logcore.logs.model.sources import SourceLog
from logcore.reading.internal_topics.consumer_groups import FoundGroup
from logcore.reading.internal_topics.log_ends import LogEnds
from logcore.reading.read_options import Notes
from logcore.reading.source_directories import source_directories
from logcore.storage.discovery import shown
from logcore.topics.group_states import GroupStates
from logcore.topics.internal_topics import InternalTopic
from logcore.topics.placement import SourceDirectory
from spark_jobs.cluster.internal_sources import NOT_READ, ClusterLogs, Row, clusters_of, logs_at, standing, time_of
from spark_jobs.cluster.metadata_rows import TABLES_OVER_TIME, MetadataRows
from spark_jobs.cluster.new_commits import LogStart, NewCommits, both_names, known_rows
from spark_jobs.cluster.read_tasks import COMMITS, ReadLog, ReadTask, Subject, read_log
from spark_jobs.contracts import ClusterConfig, JobReport
from spark_jobs.engine import job_engine
from spark_jobs.engine.executor import Executor, run_tasks
from spark_jobs.errors import JobError
from spark_jobs.lake.cluster import last_reading
from spark_jobs.lake.cluster_columns import CLUSTER_TABLES, DOUBTFUL, SOURCE, ClusterTable
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import TableVersions
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.ledger import finding_rows
from spark_jobs.lake.segments import archive
from spark_jobs.lake.setup.identity import claim, cluster_of_logs, has_cluster
from spark_jobs.lake.table_specs import TABLES
from spark_jobs.outlines import ClusterFinding, ClusterOutline
from spark_jobs.placed_finding import PlacedFinding

GroupRows = dict[str, list[Row]]
"""Rows by table."""


def group_rows(
    cluster: ClusterLogs,
    states: Iterable[tuple[SourceLog, GroupStates]],
    open_transactions: Mapping[tuple[str, int], int | None],
    notes: Notes,
) -> GroupRows:
    """Make the rows of all groups of a cluster.

    Args:
        cluster: The cluster.
        states: Its logs of `__consumer_offsets`, and what they say.
        open_transactions: First offset of the oldest open transaction by topic partition, for the logs in the lake;
            None: there is none.
        notes: Gets the findings.
    """
    rows: GroupRows = {"cluster_groups": [], "cluster_group_members": [], "cluster_group_offsets": []}
    names = {log.topic_id: log.topic_partition.topic for log in cluster.logs if log.topic_id is not None}
    groups = (FoundGroup(log, group) for log, of_log in states for group in of_log.groups(names))
    ends = LogEnds(cluster.logs)
    for group in groups:
        place = cluster.place(group.log) | {"group": group.state.group, "standing": standing(group.log)}
        members = group.state.members
        rows["cluster_groups"].append(place | group.state.columns | {"members": len(members)})
        for member in members:
            assigned = sorted(member.assignment.items())
            partitions = [f"{topic}-{number}" for topic, numbers in assigned for number in numbers]
            rows["cluster_group_members"].append(place | member.columns | {"assignment": partitions})
        rows["cluster_group_offsets"] += _offsets(group, place, ends, open_transactions, notes)
    return rows


def _offsets(
    group: FoundGroup,
    place: Row,
    ends: LogEnds,
    open_transactions: Mapping[tuple[str, int], int | None],
    notes: Notes,
) -> Iterator[Row]:
    for (topic, partition), commit in sorted(group.state.offsets.items()):
        beyond = ends.commit_beyond(group.state.group, topic, partition, commit.offset)
        if beyond is not None:
            notes.say(beyond)
        end, stable = ends.high_watermark(topic, partition), None
        if end is not None and (topic, partition) in open_transactions:
            first = open_transactions[topic, partition]
            stable = end if first is None else min(end, first)
        yield place | {
            "topic": topic,
            "partition": partition,
            "committed_offset": commit.offset,
            "leader_epoch": commit.leader_epoch,
            "metadata": commit.metadata,
            "commit_time": time_of(commit.commit_time_ms),
            "record_offset": commit.record_offset,
            "high_watermark": end,
            "last_stable_offset": stable,
            "lag": None if end is None else end - commit.offset,
            "lag_read_committed": None if stable is None else stable - commit.offset,
        }


def first_open(rows: Sequence[Mapping[str, object]]) -> dict[tuple[str, int], int]:
    """Return the first offset of the oldest open transaction by topic partition, from rows of `transactions`."""
    oldest: dict[tuple[str, int], int] = {}
    for row in rows:
        place = str(row["topic"]), int(str(row["partition"]))
        offset = int(str(row["first_offset"]))
        oldest[place] = min(offset, oldest.get(place, offset))
    return oldest


__all__ = ["apply", "plan"]

_BY_NAME = {table.name: table for table in CLUSTER_TABLES}
_OF_GROUPS = ("cluster_group_offsets", "cluster_groups", "cluster_group_members")
_COORDINATORS = (
    (InternalTopic.TRANSACTION_STATE, Subject.TRANSACTIONAL_IDS, "cluster_transactional_ids"),
    (InternalTopic.REMOTE_LOG_METADATA, Subject.REMOTE_SEGMENTS, "cluster_remote_segments"),
)
"""Logs whose rows need no table of the lake."""
_BEYOND_LOG_END = "commit-beyond-log-end"
_NOT_RECORDED = "source-changed"
"""Rule of findings about files that changed while they were read: the next run reads them again."""


@dataclass(frozen=True, slots=True)
class Unread:
    """The internal logs to read.

    Attributes:
        config: The job.
        logs: The logs at the sources.
        clusters: The same by cluster.
        held: The cluster of the lake.
        expected: The table that new commits are compared with; None if there are no such logs.
        starts: Where to begin to read commits.
        tasks: What to read.
    """

    config: ClusterConfig
    logs: tuple[SourceLog, ...]
    clusters: tuple[ClusterLogs, ...]
    held: str | None
    expected: TableVersions | None
    starts: Mapping[SourceLog, LogStart]
    tasks: tuple[ReadTask, ...]

    def compared(self, read: Iterable[ReadLog]) -> ClusterPlan:
        """Compare with the tables what the tasks read, in their order."""
        done = {(task.subject, task.log): each for task, each in zip(self.tasks, read, strict=True)}
        return _compared(self, done)


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
        unread: What tasks are to read first: all else is not known yet. None: everything was read.
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
    unread: Unread | None = None
    basis: last_reading.Basis | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the tables have everything."""
        if self.unread is not None:
            return False
        is_written = self.commits.guards or self.commits.changed or self.replaced
        return not (is_written or self.findings or self.claimed)

    @property
    def task_bytes(self) -> int | None:
        """Bytes that the tasks read; None: there are no tasks."""
        return None if self.unread is None else sum(task.size for task in self.unread.tasks)

    @property
    def outline(self) -> ClusterOutline:
        """What a report and a dry run say of it. For a dry run, what is unread is read here."""
        if self.unread is not None:
            return self.unread.compared(map(read_log, self.unread.tasks)).outline
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
    """Find the internal logs and read them, if they are so small that workers would start later."""
    try:
        logs = logs_at(config.sources)
    except LogError as error:
        raise JobError(str(error)) from error
    held = cluster_of_logs(config.lake, logs, config.cluster)
    clusters, commits = clusters_of(logs, held), NewCommits()
    starts: dict[SourceLog, LogStart] = {}
    tasks: list[ReadTask] = []
    for cluster in clusters:
        if not config.only_metadata:
            of_cluster = list(commits.starts(config.lake, cluster, cluster.of(InternalTopic.CONSUMER_OFFSETS)))
            starts |= {each.log: each for each in of_cluster}
            tasks += [ReadTask(Subject.COMMITS, cluster.cluster, each.log, each.start) for each in of_cluster]
            tasks += [ReadTask(Subject.GROUPS, cluster.cluster, each.log) for each in of_cluster]
            tasks += [
                ReadTask(subject, cluster.cluster, log)
                for topic, subject, _ in _COORDINATORS
                for log in cluster.of(topic)
            ]
        metadata = cluster.of(InternalTopic.CLUSTER_METADATA)
        tasks += [ReadTask(Subject.METADATA, cluster.cluster, log) for log in metadata]
    unread = Unread(config, logs, tuple(clusters), held, commits.expected, starts, tuple(tasks))
    # Policies of a plan come from the metadata.
    if config.only_metadata or sum(task.size for task in tasks) <= job_engine.IN_PROCESS_BYTES.get(config.JOB, -1):
        return unread.compared(map(read_log, tasks))
    return ClusterPlan(unread=unread)


@dataclass(slots=True)
class _Found:
    """What the internal logs say.

    Attributes:
        lake: The lake.
        done: What was read.
        made: Gets what differs from the tables.
        notes: Gets the findings.
        rows: Rows by table.
        sources: By table the internal logs that say them.
    """

    lake: str
    done: Mapping[tuple[Subject, SourceLog], ReadLog]
    made: ClusterPlan
    notes: Notes = field(default_factory=Notes)
    rows: dict[str, list[Row]] = field(default_factory=lambda: {table.name: [] for table in CLUSTER_TABLES})
    sources: dict[str, set[str]] = field(default_factory=lambda: {table.name: set() for table in CLUSTER_TABLES})

    def take(self, subject: Subject, log: SourceLog) -> Any:
        """Return what a log says of a subject, and note the findings."""
        read = self.done[subject, log]
        for finding in read.findings:
            self.notes.say(finding)
        return read.value


def _compared(unread: Unread, done: Mapping[tuple[Subject, SourceLog], ReadLog]) -> ClusterPlan:
    config = unread.config
    made = ClusterPlan(NewCommits(expected=unread.expected), directories=source_directories(unread.logs))
    found = _Found(config.lake, done, made)
    notes = found.notes
    for cluster in unread.clusters:
        if not config.only_metadata:
            for log in cluster.of(InternalTopic.CONSUMER_OFFSETS):
                made.commits.add(config.lake, unread.starts[log], found.take(Subject.COMMITS, log))
            _add_groups(cluster, found)
            _add_coordinators(cluster, found)
        for log in cluster.of(InternalTopic.CLUSTER_METADATA):
            _add_metadata(str(cluster.place(log)[SOURCE]), log, found)
        made.waits |= _not_opened(cluster, notes)
    made.logs = tuple(sorted({log for logs in found.sources.values() for log in logs} | set(made.waits)))
    if made.logs and unread.held is not None and not has_cluster(config.lake):
        made.claimed = unread.held
    for table in CLUSTER_TABLES:
        places = found.sources[table.name] - set(made.waits)
        rows = [row for row in found.rows[table.name] if row[SOURCE] in places]
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
    if plan.unread is not None:
        tasks = plan.unread.tasks
        read = run_tasks(executor, read_log, tasks, [task.size for task in tasks])
        plan = replace(plan.unread.compared(read), basis=plan.basis)
    if plan.claimed is not None:  # otherwise a later run of a source that states none would write these rows again
        claim(config.lake, plan.claimed)
    new = plan.commits
    rows = new.table()
    if new.replaced:
        where = (SOURCE, tuple(new.replaced))
        commits.replace(config.lake, COMMITS, where, rows, config.run_id, new.guards, new.expected)
    elif new.guards or new.changed:
        commits.append(config.lake, COMMITS, rows, config.run_id, new.guards, new.expected)
    for name, (logs, replaced) in plan.replaced.items():
        commits.replace(config.lake, name, (SOURCE, logs), replaced, config.run_id)
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


def _add_groups(cluster: ClusterLogs, found: _Found) -> None:
    logs = cluster.of(InternalTopic.CONSUMER_OFFSETS)
    if not logs:
        return
    for name in (COMMITS, *_OF_GROUPS):
        found.sources[name] |= {str(cluster.place(log)[SOURCE]) for log in logs}
    ended = read_rows(found.lake, "transactions", ["topic", "partition", "first_offset"], [("state", "in", ["open"])])
    oldest = first_open(ended.to_pylist())
    known = {(log.topic, log.partition) for log in archive.read_logs(found.lake).values()}
    opened = {place: oldest.get(place) for place in known}
    states = ((log, found.take(Subject.GROUPS, log)) for log in logs)
    for name, rows in group_rows(cluster, states, opened, found.notes).items():
        found.rows[name] += rows


def _add_coordinators(cluster: ClusterLogs, found: _Found) -> None:
    for topic, subject, name in _COORDINATORS:
        for log in cluster.of(topic):
            found.sources[name].add(str(cluster.place(log)[SOURCE]))
            found.rows[name] += found.take(subject, log)


def _add_metadata(place: str, log: SourceLog, found: _Found) -> None:
    read: MetadataRows = found.take(Subject.METADATA, log)
    changed = any(finding.rule == _NOT_RECORDED for finding in found.done[Subject.METADATA, log].findings)
    if read.lost_from is not None and not changed:
        found.made.doubtful.add(place)
    known = {name: known_rows(found.lake, name, (place,)).to_pylist() for name in TABLES_OVER_TIME}
    reached = reached_offset(row for rows in known.values() for row in rows)
    if reached >= read.end:
        found.made.waits[place] = f"the tables have offset {reached}, and the source ends at {read.end}"
        return
    for name in TABLES_OVER_TIME:
        found.sources[name].add(place)
        identity = _BY_NAME[name].identity
        present = _table(_BY_NAME[name], read.rows[name]).to_pylist()
        found.rows[name] += with_history(known[name], present, identity, read.start)


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


_PLACES = ("valid_from_offset", "valid_from_time", "valid_to_offset", "valid_to_time", "standing")


def with_history(known: Sequence[Row], read: Sequence[Row], identity: Sequence[str], start: int) -> list[Row]:
    """Return rows of one table and one metadata log, from the rows of the table and those that were read.

    Args:
        known: Rows of the table.
        read: Rows of the source.
        identity: Columns that name the thing that a row is about.
        start: The offset at which the source begins; 0: the source has everything.
    """
    if start == 0:
        return list(read)
    begun = start - 1
    earlier = [row for row in known if _number(row, "valid_from_offset") <= begun]
    at_start = {_key(row, identity): row for row in read if _number(row, "valid_from_offset") <= begun}
    kept: list[Row] = []
    for row in earlier:
        end = row["valid_to_offset"]
        if end is not None and int(str(end)) <= begun:
            kept.append(row)
            continue
        now = at_start.get(_key(row, identity))
        if now is not None and _content(now) == _content(row):
            now |= {name: row[name] for name in ("valid_from_offset", "valid_from_time")}
        else:  # it ended between what was read before and the beginning of the source
            ended = begun if now is None else max(_number(row, "valid_from_offset"), _number(now, "valid_from_offset"))
            kept.append(row | {"valid_to_offset": ended, "valid_to_time": None})
    return [*kept, *read]


def with_doubt(known: Iterable[Row]) -> list[Row]:
    """Return rows of a table; those without an end are doubtful. Their values stay."""
    return [row | {"standing": DOUBTFUL} if row["valid_to_offset"] is None else row for row in known]


def reached_offset(known: Iterable[Row]) -> int:
    """Return the offset of the last record that rows name as their begin or end; -1 without rows."""
    columns = ("valid_from_offset", "valid_to_offset")
    return max((_number(row, name) for row in known for name in columns if row[name] is not None), default=-1)


def _number(row: Row, column: str) -> int:
    return int(str(row[column]))


def _key(row: Row, identity: Sequence[str]) -> tuple[object, ...]:
    return tuple(row[name] for name in identity)


def _content(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in _PLACES}
