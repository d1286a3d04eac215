"""``optimize``: merges small files of a lake's tables in the tables' order, and removes files that are no longer
needed.

    plan    runs of small adjacent files by their add actions, idle files by age, due checkpoints (driver, no JVM)
    merge   workers stream the files of a run into fewer, the same rows in the same order       (workers)
    commit  the new files in the place of the old ones, `dataChange=false`, one commit a topic  (driver)
    clean   checkpoints; then files that no version within the retention period names           (driver)

Rows, frontiers and order do not change. Files of a topic of ``records`` stay as they are where another engine left one
with rows of several logs, or out of order; ``--replace`` writes it again. After a conflicting commit the merge is
planned again from a fresh snapshot.
Without ``apply`` only the plan is made.

``deltalake``'s own ``optimize.compact`` (1.6.6) is not used. It syncs no file, and writes no page checksums and no row
digest, so ``loglake verify`` would not see a changed bit. Its commit records no application versions. It cannot open
files where ``delta_location`` gives a table another name.

Decoding adds files in each run and never joins them, so ``decoded/<topic>`` and ``undecoded/<topic>`` are merged as
``records`` is, log by log in the order of offsets. A commit of a merge records no version: frontiers, policy and
schemas stay as the last decoding left them. If a decoding commits at the same moment, Delta refuses one of both, which
plans again.

``latest/<topic>`` is left alone. Its job joins small files by itself, and keeps them small so that a changed key costs
little. A table of a topic is also left alone if its log is damaged, if it has features that Loglake does not support,
or if a file has rows of several logs. ``loglake verify`` names it; ``--replace`` writes it again.

Files that no version of a table within the retention period names: which there are, and their removal.

Which files of a table's log may go, by the number of commits.

Delta removes commits by age, 30 days by default. A table with a commit a second would have 2.6 million of them by then,
and each program that opens it lists them all, however young the last checkpoint is. On a local disk this took 2 ms with
1,000 commits, 10 ms with 10,000, and 208 ms with 86,400, a day. So only the latest commits are kept, by their number. A
checkpoint that is at least as old as all of them stays too, so every version from there on can be read.

Some older checkpoints of a table stay too. Each of them is a whole version of the table, which says what was there at
its time.

Some commits stay however many there are, and all later ones with them:

- A commit that no run has seen. Another program may have made it, and the next run looks for that.
- A commit of a file that waited long for it. The age at which files are removed depends on the longest wait.
- A damaged commit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from deltalake import DeltaTable

from logcore.logs.model.findings import found
from spark_jobs.contracts import JobReport, LogChange, OptimizeConfig
from spark_jobs.engine.executor import Executor, run_tasks
from spark_jobs.errors import ConcurrentChange, StorageError, TableUnreadable, UsageError
from spark_jobs.lake.decoded.table_columns import extra_columns
from spark_jobs.lake.decoded.topic_tables import DECODED, LATEST, UNDECODED, existing, tables_of, written_spec
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.files.file_contents import FileUnreadable, read_contents
from spark_jobs.lake.delta.files.live_files import LiveFile, idle_files, live_files, newest_files
from spark_jobs.lake.delta.state import tables_file
from spark_jobs.lake.delta.table import Table
from spark_jobs.lake.delta.tables import delta_log
from spark_jobs.lake.delta.tables.delta_log import History, commits_since_checkpoint, read_history
from spark_jobs.lake.delta.tables.snapshots import open_table, table_uri
from spark_jobs.lake.delta.tables.table_creation import separating_column
from spark_jobs.lake.delta.tables.table_features import is_supported
from spark_jobs.lake.ledger import finding_rows
from spark_jobs.lake.repair_commands import rebuild_command, replace_command, topic_command
from spark_jobs.lake.retries import retried
from spark_jobs.lake.segments import archive
from spark_jobs.lake.store import deletion, disk_sync, storage
from spark_jobs.lake.store.storage import StoredFile
from spark_jobs.lake.store.written_file import WrittenFile, is_own_file
from spark_jobs.lake.table_specs import RECORD_TABLES, TABLES
from spark_jobs.optimize.file_runs import Merge, Sizes, log_merges, state_merges
from spark_jobs.optimize.merged_file import FileMergeTask, discard, merge_files
from spark_jobs.outlines import LeftTable, MergeOutline, OptimizeOutline, UnusedFile, UnusedFiles
from spark_jobs.placed_finding import PlacedFinding

KEPT_COMMITS = 1_000
KEPT_COMMITS_OF_RECORDS = 10_000
"""Streams read the tables of records commit by commit, and may rest for a while: 2.8 hours at a commit a second."""
RETENTION_PROPERTIES = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")
"""Where a user has set one of them, commits are removed by their age alone."""
LEAST_VACUUM_MS = 7 * 86_400_000
"""Least age at which a file is removed. For as long, each checkpoint says when a file left the table."""

UNSEEN_MS = 86_400_000
"""After so long without a run, Delta's own cleanup by age waits for the next run."""

CHECKPOINTS_MS = delta_log.VERSIONS_KEPT_MS
CHECKPOINT_EVERY_MS = 3_600_000
"""An older checkpoint in each hour of two days."""


def drop_commits(lake: str, name: str, now_ms: int, kept: int | None = None) -> int:
    """Remove the oldest files of a table's log.

    They are removed in the order of their versions, so that the log has no hole if this is interrupted. An object store
    removes a thousand with one request; what is left of these lies before a checkpoint too.

    Args:
        lake: The lake.
        name: The table.
        now_ms: Clock of the lake's store, epoch milliseconds.
        kept: Commits that stay in any case; None: as many as fit the table.

    Returns:
        The number of removed commits.
    """
    if kept is None:
        kept = KEPT_COMMITS_OF_RECORDS if name.startswith("records") else KEPT_COMMITS
    files = delta_log.log_files(lake, name)
    if len(files.commits) <= kept:
        return 0
    table = open_table(lake, name)
    if table is None or any(each in table.metadata().configuration for each in RETENTION_PROPERTIES):
        return 0
    seen = tables_file.read_state(lake).since(name)
    latest = table.version() - kept if seen < 0 else min(table.version() - kept, seen + 1)
    base = max((version for version in files.checkpoints if version <= latest), default=-1)
    in_order = sorted(files.commits)
    needed = _first_needed(lake, name, in_order[: bisect_left(in_order, base)], seen)
    if needed is not None:
        base = max((version for version in files.checkpoints if version <= needed), default=-1)
    if base < 0:
        return 0
    if not storage.is_remote(lake):
        disk_sync.sync(files.checkpoints[base].path)  # deltalake has not
        disk_sync.sync(delta_log.log_folder(lake, name))
    gone = [version for version in in_order if version < base]
    deletion.delete_files([files.commits[version].path for version in gone])
    deletion.delete_files([file.path for file in _needless(files.checkpoints, base, now_ms)])
    return len(gone)


def has_old_unseen(lake: str, name: str, now_ms: int) -> bool:
    """Return whether the log has commits of more than a day ago that no run has seen."""
    seen = tables_file.read_state(lake).since(name)
    commits = delta_log.log_files(lake, name).commits
    return any(version > seen and now_ms - file.placed_ms > UNSEEN_MS for version, file in commits.items())


def _first_needed(lake: str, name: str, versions: Iterable[int], seen: int) -> int | None:
    """The first of these versions whose commit has to stay; None: no one has to."""
    for version in versions:
        try:
            commit = delta_log.read_commit(lake, name, version)
        except TableUnreadable:
            return version
        if commit is None:
            continue
        is_unseen = seen < version and (not commit.is_ours or commit.unproven)
        if is_unseen or 2 * commit.longest_wait_ms > LEAST_VACUUM_MS:
            return version
    return None


def _needless(checkpoints: Mapping[int, StoredFile], base: int, now_ms: int) -> Iterator[StoredFile]:
    """Checkpoints before the base, without the latest one of each hour of two days."""
    hours: set[int] = set()
    for version in sorted(checkpoints, reverse=True):
        file = checkpoints[version]
        hour = file.placed_ms // CHECKPOINT_EVERY_MS
        if version < base and (hour in hours or now_ms - file.placed_ms > CHECKPOINTS_MS):
            yield file
        hours.add(hour)


def table_histories(lake: str) -> dict[str, History]:
    """Return the history of each table: of ``TABLES`` by name, of a topic by kind and folder.

    A table of a topic that can't be read is left out, and so is one with other features than ours: a deletion vector is
    a file too that only the table's log names.
    """
    histories = {name: read_history(lake, name) for name in TABLES}
    for kind in (DECODED, UNDECODED, LATEST):
        for folder in existing(lake, (kind,)):
            name = f"{kind}/{folder}"
            try:
                table = open_table(lake, name)
                if table is not None and is_supported(table):
                    histories[name] = read_history(lake, name)
            except StorageError:
                raise
            except TableUnreadable:
                continue  # verify names it
    return histories


def least_age(config: OptimizeConfig, histories: Mapping[str, History]) -> int:
    """Age at which a file that no version names is removed.

    A file that waits for its commit, or that is being read, must never reach it. So it is also at least twice the
    longest time that a file of this lake has waited.
    """
    if config.force:
        return config.vacuum_after_ms
    if config.vacuum_after_ms < LEAST_VACUUM_MS:
        raise UsageError(
            f"optimize: files would be removed after {config.vacuum_after_ms} ms, and the minimum is {LEAST_VACUUM_MS} "
            "ms, seven days: a run or a reader could still need them. Request more, or set `force` if nothing else "
            "reads or writes this lake."
        )
    return max([config.vacuum_after_ms, *(2 * history.longest_wait_ms for history in histories.values())])


def plan_vacuum(config: OptimizeConfig, histories: Mapping[str, History], floor_ms: int) -> Iterator[UnusedFile]:
    """Files that are old by the run's clock and by the store's clock.

    A run with a clock in the future must not remove files of a publish that is still working.
    """
    now_ms = config.as_of_ms
    is_asked = config.force
    for name, history in histories.items():
        for file in idle_files(config.lake, name, history):
            if now_ms - file.since_ms > floor_ms and not is_asked:
                now_ms = min(now_ms, storage.clock_ms(config.lake))
                is_asked = True
            age = now_ms - file.since_ms
            if age > floor_ms:
                yield UnusedFile(name, file.path, file.size, age, file.was_live)


def remove_files(lake: str, files: Sequence[UnusedFile]) -> Iterator[UnusedFile]:
    """Delete files, except those that a version added since the plan."""
    for name, of_table in groupby(files, key=lambda each: each.table):
        table = open_table(lake, name)
        live = {file.path for file in live_files(table)} if table is not None else set()
        for each in of_table:
            if table is not None and each.path not in live:
                storage.delete(storage.join(table_uri(lake, name), each.path))
                yield each


MOST_TARGET_BYTES = 512 << 20

LOG_KEPT_MS = 30 * 86_400_000
"""Delta's default retention of a table's commits; they date the removals of files."""

CHECKPOINT_COMMITS = 10

ROUNDS = 3
"""How often conflicting merges are planned again in one run."""


LISTED_FILES = 1000


@dataclass(frozen=True, slots=True)
class OptimizePlan:
    """The work to do. The dry run prints it."""

    merges: tuple[Merge, ...]
    vacuum: tuple[UnusedFile, ...]
    floor_ms: int
    """Minimum age of files that are removed."""
    checkpoints: Mapping[str, int]
    """Commits since the last checkpoint, for tables where one is due."""
    applied: bool
    left: tuple[LeftTable, ...] = ()
    """Tables, or topics of ``records``, whose files stay as they are."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to merge, remove or checkpoint."""
        return not self.merges and not self.vacuum and not self.checkpoints

    @property
    def task_bytes(self) -> int | None:
        """Bytes that the tasks read; None: there are no tasks."""
        return sum(merge.size for merge in self.merges) if self.applied and self.merges else None

    @property
    def outline(self) -> OptimizeOutline:
        """What a report and a dry run say of it."""
        return OptimizeOutline(
            tuple(map(_described, self.merges)),
            self.left,
            UnusedFiles(
                len(self.vacuum), sum(each.size for each in self.vacuum), self.floor_ms, self.vacuum[:LISTED_FILES]
            ),
            self.checkpoints,
        )


def plan(config: OptimizeConfig) -> OptimizePlan:
    """Plan what can be merged and removed at the run's clock.

    Raises:
        UsageError: The sizes would cause endless merges, or the minimum age is so small that a run or a reader could
            lose files.
    """
    _check_sizes(config)
    histories = table_histories(config.lake) if config.vacuum else {}
    floor_ms = least_age(config, histories)
    merges, left = plan_merges(config)
    return OptimizePlan(
        merges=tuple(merges),
        left=tuple(left),
        vacuum=tuple(plan_vacuum(config, histories, floor_ms)),
        floor_ms=floor_ms,
        checkpoints=_due_checkpoints(config.lake),
        applied=config.apply,
    )


def apply(plan: OptimizePlan, config: OptimizeConfig, executor: Executor | None) -> JobReport[OptimizeOutline]:
    """Merge, write checkpoints, remove files. Without ``config.apply`` only report the plan."""
    report = JobReport.of(config, plan.outline, metrics={"applied": 0})
    if not config.apply:
        return report
    done: list[tuple[Merge, list[WrittenFile]]] = []
    placed: list[PlacedFinding] = []
    merges: Sequence[Merge] = plan.merges
    overtaken: list[Merge] = []
    for _ in range(ROUNDS):
        committed, overtaken, failed = _merge(config, merges, executor)
        done += committed
        placed += failed
        due = {merge.table for merge in overtaken} | {merge.table for merge, _ in committed if merge.separates}
        if not due:
            break
        again, _ = plan_merges(config, sorted(due))
        hopeless = {file.path for merge in merges for file in merge.files} - {
            f.path for m in overtaken for f in m.files
        }
        merges = [m for m in again if not any(file.path in hopeless for file in m.files)]
    checkpoints = _check_off(config, plan.floor_ms)
    removed = list(remove_files(config.lake, plan.vacuum))
    return replace(
        report,
        changed=tuple(_changes(done)),
        findings=tuple(finding_rows.record(config.lake, placed, config.run_id, config.as_of_ms)),
        metrics={
            "applied": 1,
            "merged_files": sum(len(merge.files) for merge, _ in done),
            "merged_bytes": sum(merge.size for merge, _ in done),
            "written_files": sum(len(files) for _, files in done),
            "written_bytes": sum(file.size for _, files in done for file in files),
            "overtaken": len(overtaken),
            "checkpoints": checkpoints,
            "removed_files": len(removed),
            "removed_bytes": sum(each.size for each in removed),
        },
    )


def _check_sizes(config: OptimizeConfig) -> None:
    if not 0 < 2 * config.small_bytes <= config.target_bytes <= MOST_TARGET_BYTES:
        raise UsageError(
            f"optimize: files are merged into ones of {config.target_bytes} bytes where they are below "
            f"{config.small_bytes}; the first has to be at least twice the second, or what is merged would be merged "
            f"again, and at most {MOST_TARGET_BYTES}."
        )


def _due_checkpoints(lake: str) -> dict[str, int]:
    versions = commits.table_versions(lake, *TABLES)
    since = {name: commits_since_checkpoint(lake, name, at) for name, at in versions.items() if at is not None}
    return {name: count for name, count in since.items() if count >= CHECKPOINT_COMMITS}


def _merge(
    config: OptimizeConfig, merges: Sequence[Merge], executor: Executor | None
) -> tuple[list[tuple[Merge, list[WrittenFile]]], list[Merge], list[PlacedFinding]]:
    """Write and commit merges.

    Returns:
        The merges that were committed, those that conflicted with another commit, and findings for those that failed.
    """
    written: list[tuple[Merge, list[WrittenFile]]] = []
    failed: list[PlacedFinding] = []
    extra = {name: extra_columns(config.lake, name) for name in {merge.table for merge in merges}}
    tasks = [
        FileMergeTask(config.lake, merge, extra[merge.table], config.policies.compression_of(merge.topic))
        for merge in merges
    ]
    for merge, result in zip(merges, run_tasks(executor, merge_files, tasks), strict=True):
        if result.error is None:
            written.append((merge, list(result.files)))
        else:
            failed.append(_damaged_files(config.lake, merge, result.error))
    committed: list[tuple[Merge, list[WrittenFile]]] = []
    # In the order of the tables, with one commit per topic: no reader sees a topic half merged.
    for (table, _), of_topic in groupby(written, key=lambda each: (each[0].table, each[0].topic)):
        committed += _commit(config.lake, config.run_id, table, list(of_topic))
    landed = [merge for merge, _ in committed]
    return committed, [merge for merge, _ in written if merge not in landed], failed


def _commit(
    lake: str, run_id: str, table: str, merges: Sequence[tuple[Merge, list[WrittenFile]]]
) -> list[tuple[Merge, list[WrittenFile]]]:
    """Commit all merges whose files are all live, in one commit. Retries after another commit.

    An object store may answer a repeated put with a conflict although the first attempt succeeded. So an attempted
    commit is searched for in the log before it counts as lost, and its files are never deleted here.
    """
    chosen: list[tuple[Merge, list[WrittenFile]]] = []
    tried: set[str] = set()

    def attempt() -> None:
        live = {file.path for file in newest_files(lake, table)}
        added = {file.path for _, files in chosen for file in files}
        if added and added <= live:
            return
        chosen[:] = [(merge, files) for merge, files in merges if all(file.path in live for file in merge.files)]
        removed = [file.path for merge, _ in chosen for file in merge.files]
        new = [file for _, files in chosen for file in files]
        tried.update(file.path for file in new)
        spec = None if table in TABLES else written_spec(table)
        commits.rewrite_files(lake, table, removed, new, run_id, data_change=False, spec=spec)

    try:
        retried(attempt)
    except ConcurrentChange:
        chosen = []
    discard(table_uri(lake, table), [f.path for _, files in merges for f in files if f.path not in tried])
    return chosen


def _damaged_files(lake: str, merge: Merge, problem: str) -> PlacedFinding:
    """Build the finding that files are left as they are, with the reason."""
    place = "-".join(str(part) for part in (merge.topic, merge.partition) if part is not None)
    way_out = "Publish their rows again from the archive, or restore the file."
    if merge.table not in TABLES:
        way_out = f"Write the table again: {topic_command(lake, 'decode', str(merge.topic))}"
    finding = found(
        "table-file-damaged",
        f"Table {merge.table}{', ' if place else ''}{place}: {len(merge.files)} files are left as they are: {problem}. "
        f"{way_out}",
    )
    return PlacedFinding(finding, merge.log, merge.topic, merge.partition)


def _check_off(config: OptimizeConfig, floor_ms: int) -> int:
    """Write due checkpoints, and remove commits from a table's log that Delta no longer has to keep."""
    due = _due_checkpoints(config.lake)
    now_ms = storage.clock_ms(config.lake)
    for name in TABLES:
        table = open_table(config.lake, name) if name in due else None
        if table is not None:
            table.create_checkpoint()
            _clean_by_age(config, table, name, floor_ms, now_ms)
        # Where the library has just written a checkpoint by itself, none is due, and there is as much to remove.
        if config.vacuum_after_ms <= LEAST_VACUUM_MS:
            drop_commits(config.lake, name, now_ms)
    return len(due)


def _clean_by_age(config: OptimizeConfig, table: DeltaTable, name: str, floor_ms: int, now_ms: int) -> None:
    """Let Delta remove commits by age. Without ``vacuum`` the longest wait of a file is unknown, and they stay."""
    if not config.vacuum or floor_ms > LOG_KEPT_MS:
        return
    if not has_old_unseen(config.lake, name, now_ms):
        table.cleanup_metadata()


def _described(merge: Merge) -> MergeOutline:
    start, end = None, None
    if merge.log is not None:
        start, end = merge.files[0].least["offset"], merge.files[-1].greatest["offset"] + 1
    return MergeOutline(
        table=merge.table,
        topic=merge.topic,
        partition=merge.partition,
        log=merge.log,
        start_offset=start,
        end_offset=end,
        files=len(merge.files),
        into=merge.outputs,
        bytes=merge.size,
        rows=merge.rows,
    )


def _changes(done: Sequence[tuple[Merge, list[WrittenFile]]]) -> Iterator[LogChange]:
    of_logs = sorted((each for each in done if each[0].log is not None), key=lambda each: str(each[0].log))
    for log, merges in groupby(of_logs, key=lambda each: str(each[0].log)):
        merged = list(merges)
        first = merged[0][0]
        yield LogChange(
            log,
            str(first.topic),
            int(first.partition or 0),
            {
                "files_before": sum(len(merge.files) for merge, _ in merged),
                "files_after": sum(len(files) for _, files in merged),
                "bytes": sum(file.size for _, files in merged for file in files),
            },
        )


_DAMAGED = "its log is damaged. Remove its directory, then write it again"
_FEATURES = "it has features that Loglake does not support. Remove its directory, then write it again"
_SEVERAL_LOGS = "a file has rows of several logs, or its statistics do not name their log. Write it again"


def plan_merges(config: OptimizeConfig, names: Sequence[str] | None = None) -> tuple[list[Merge], list[LeftTable]]:
    """Plan merges. Also returns the tables, and the topics of ``records``, that are left alone.

    Args:
        names: Only of these tables; None: of all.
    """
    sizes = Sizes(config.small_bytes, config.target_bytes)
    if names is None:
        topics = (row.topic for row in archive.read_logs(config.lake).values())
        names = [*TABLES, *(table.name for table in tables_of(config.lake, topics))]
    merges: list[Merge] = []
    left: list[LeftTable] = []
    log_ids = archive.incarnations(config.lake) if any(name in RECORD_TABLES for name in names) else {}
    for name in names:
        if name not in TABLES:
            merges_of_topic, why = _of_topic(Table(config.lake, name), sizes)
            merges += merges_of_topic
            left += why
            continue
        table = open_table(config.lake, name)
        if table is None:
            continue
        files = live_files(table)
        if name not in RECORD_TABLES:
            merges += state_merges(name, files, sizes, separating_column(table, name))
            continue
        ends = None
        if name == "records_uncommitted":
            # After the decided offsets follows a tail that is replaced as a whole: no merged file may span its start.
            logs = {f"{log_id}/{partition}" for (_, partition), ids in log_ids.items() for log_id in ids}
            decided = commits.versions(config.lake, name, [f"{name}/{log}" for log in logs])
            ends = {log: decided[f"{name}/{log}"] for log in logs}
        disordered = {file.partition_values["topic"] for file in files if not _is_ordered(config.lake, name, file)}
        of_records, unplaced = log_merges(
            name, [file for file in files if file.partition_values["topic"] not in disordered], sizes, log_ids, ends
        )
        merges += of_records
        left += [_left(config.lake, name, topic) for topic in sorted({*disordered, *unplaced})]
    return merges, left


def _of_topic(table: Table, sizes: Sizes) -> tuple[list[Merge], list[LeftTable]]:
    why = _SEVERAL_LOGS
    try:
        opened = table.open()
        if opened is None:
            return [], []
        with table.reading():
            files = live_files(opened)
            merges, unplaced = log_merges(table.name, files, sizes, {})
            if not is_supported(opened):
                why = _FEATURES
            elif not unplaced and not any(file.partition_values for file in files):
                return merges, []
    except StorageError:
        raise
    except TableUnreadable:
        why = _DAMAGED
    return [], [LeftTable(table.name, f"{why}: `{topic_command(table.lake, 'decode', table.topic)}`")]


def _is_ordered(lake: str, name: str, file: LiveFile) -> bool:
    """Whether a file of records has rows of one log in the order of their offsets. Only foreign files are opened."""
    try:
        return is_own_file(file.path) or read_contents(lake, name, file.path).is_ordered
    except FileUnreadable:
        return False


def _left(lake: str, name: str, topic: str) -> LeftTable:
    again = replace_command(lake, topic) if name == "records" else rebuild_command(lake, name)
    why = "a file cannot be read, or does not have the rows of one log in the order of their offsets. Write it again"
    return LeftTable(f"{name}/{topic}", f"{why}: `{again}`")
