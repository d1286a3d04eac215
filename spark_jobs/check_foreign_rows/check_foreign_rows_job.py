"""``check_foreign_rows``: compares files of ``records`` that other engines wrote with the archive, and nothing else.

    plan     live files that commits of other engines added with changed data since the table was recorded     (driver)
    compare  their rows with the archive, and with other files of the same offsets, a task a file             (workers)
    record   the answers in ``tables.json``; each difference as a finding                                      (driver)

An answer is kept as long as its file is live. A file that rewrites rows without changing them (``dataChange`` is false)
is not checked here; row counts and ``loglake verify LAKE`` check it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from logcore.logs.model.findings import found
from spark_jobs.contracts import CheckForeignRowsConfig, JobReport
from spark_jobs.engine.executor import Executor, run_tasks
from spark_jobs.lake.delta.files.live_files import LiveFile, live_files, open_parquet
from spark_jobs.lake.delta.state import foreign_commits, tables_file
from spark_jobs.lake.delta.state.tables_file import ForeignAnswer
from spark_jobs.lake.delta.tables.snapshots import open_table, table_uri
from spark_jobs.lake.ledger import finding_rows
from spark_jobs.lake.published.held_offsets import HeldOffsets, LogRuns
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.lake.store import storage
from spark_jobs.lake_verification.comparison import SCHEMA, Archive, Comparison, Range, RowComparison, as_answer
from spark_jobs.lake_verification.files import CHUNK_ROWS, add_offsets, comparison_findings, offsets_in
from spark_jobs.lake_verification.verified_thing import DataUnreadable, readable
from spark_jobs.outlines import ForeignFiles
from spark_jobs.placed_finding import PlacedFinding
from spark_jobs.reads import Reads

TABLE = "records"


@dataclass(frozen=True, slots=True)
class ComparisonTask:
    """A file to compare, and the logs of its topic."""

    lake: str
    logs: tuple[str, ...]
    file: LiveFile
    beside: tuple[str, ...]
    """Live files that may have the same offsets."""

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return Reads(TABLE, self.file.path)


@dataclass(frozen=True, slots=True)
class CheckForeignRowsPlan:
    """The files to compare. The dry run prints it."""

    files: tuple[LiveFile, ...]
    """Files with rows of other engines that were not compared yet."""
    beside: Mapping[str, tuple[str, ...]]
    """For each file: live files that may have the same offsets."""
    known: Mapping[str, ForeignAnswer]
    """Answers of earlier runs for files that are still live."""

    @property
    def is_empty(self) -> bool:
        """Whether no file has to be read; the plan has the known answers."""
        return not self.files

    @property
    def task_bytes(self) -> int | None:
        """Bytes that the tasks read; None: there are no tasks."""
        return sum(file.size for file in self.files) if self.files else None

    @property
    def outline(self) -> ForeignFiles:
        """What a report and a dry run say of it; the answers are the known ones."""
        return ForeignFiles(tuple(file.path for file in self.files), self.known)


@dataclass(slots=True)
class _Answers:
    """Results by file."""

    by_file: dict[str, ForeignAnswer] = field(default_factory=dict)
    differences: list[tuple[LiveFile, Comparison]] = field(default_factory=list)
    rows: int = 0


def plan(config: CheckForeignRowsConfig) -> CheckForeignRowsPlan:
    """Find files that other engines added with changed data, and that no run has compared."""
    table = open_table(config.lake, TABLE)
    if table is None:
        return CheckForeignRowsPlan((), {}, {})
    state = tables_file.read_state(config.lake)
    live = {file.path: file for file in live_files(table)}
    known = {path: answer for path, answer in state.foreign.get(TABLE, {}).items() if path in live}
    new = foreign_commits.unchecked_files(config.lake, TABLE)
    return CheckForeignRowsPlan(tuple(new), {file.path: _beside(file, live) for file in new}, known)


def apply(
    plan: CheckForeignRowsPlan, config: CheckForeignRowsConfig, executor: Executor | None
) -> JobReport[ForeignFiles]:
    """Compare the files, record the answers and report differences."""
    answers = _Answers(dict(plan.known))
    if plan.files:
        logs = archive.read_logs(config.lake)
        tasks = [ComparisonTask(config.lake, _logs_of(file, logs), file, plan.beside[file.path]) for file in plan.files]
        results = run_tasks(executor, compare_file, tasks, [file.size for file in plan.files])
        for file, result in zip(plan.files, results, strict=True):
            answers.by_file[file.path] = as_answer(result)
            answers.differences.append((file, result))
            answers.rows += result.equal
        tables_file.record_state(config.lake, config.run_id, config.as_of_ms, foreign={TABLE: answers.by_file})
    placed = [each for file, result in answers.differences for each in _findings(config.lake, file, result)]
    if config.logs is not None:
        placed = [each for each in placed if each.log is None or each.log in config.logs]
    new = finding_rows.record(config.lake, placed, config.run_id, config.as_of_ms)
    return JobReport.of(
        config,
        replace(plan.outline, answers=answers.by_file),
        findings=tuple(new),
        metrics={
            "files": len(plan.files),
            "rows_by_archive": answers.rows,
            "rows_not_provable": sum(result.unproved for _, result in answers.differences),
            "files_that_differ": sum(isinstance(answer, list) for answer in answers.by_file.values()),
        },
    )


def _beside(file: LiveFile, live: Mapping[str, LiveFile]) -> tuple[str, ...]:
    """Other files of the topic that may have the same offsets of the same log, by their statistics."""
    return tuple(sorted(other.path for other in live.values() if other.path != file.path and _overlap(file, other)))


def _overlap(one: LiveFile, other: LiveFile) -> bool:
    if one.partition_values.get("topic") != other.partition_values.get("topic"):
        return False
    for name in ("partition", "log_id", "offset"):
        least, greatest = other.least.get(name), other.greatest.get(name)
        if least is None or greatest is None or name not in one.least or name not in one.greatest:
            continue
        if one.greatest[name] < least or greatest < one.least[name]:
            return False
    return True


def _logs_of(file: LiveFile, logs: Mapping[str, LogRow]) -> tuple[str, ...]:
    """The logs of the topic that the file lies under: rows of others are foreign whatever their bytes are."""
    topic = file.partition_values.get("topic")
    return tuple(sorted(log for log, row in logs.items() if topic is None or row.topic == topic))


def compare_file(task: ComparisonTask) -> Comparison:
    """Compare the rows of a file with the archive. Runs in a worker."""
    lake, file = task.lake, task.file
    compared = RowComparison(Archive.of(lake, task.logs), file.partition_values.get("topic", ""))
    runs: LogRuns = {}
    try:
        with readable(), open_parquet(storage.join(table_uri(lake, TABLE), file.path)) as parquet:
            for chunk in parquet.iter_batches(CHUNK_ROWS, columns=list(SCHEMA.names), use_threads=False):
                rows = chunk.select(SCHEMA.names).cast(SCHEMA)
                compared.take(rows)
                add_offsets(runs, rows)
        result = compared.finish()
        for path in task.beside:
            result.differences += _doubled(lake, runs, path)
    except (DataUnreadable, FileNotFoundError) as error:
        result = compared.finish()
        start, end = file.min_offset or 0, (file.max_offset or 0) + 1
        result.differences.append(Range(file.log or "", start, end, f"the file cannot be read ({error})"))
    return result


def _doubled(lake: str, ours: LogRuns, path: str) -> Iterator[Range]:
    """Offsets that another file has too."""
    theirs = offsets_in(lake, TABLE, path)
    for log in ours.keys() & theirs.keys():
        other = HeldOffsets.of([theirs[log]])
        mine = HeldOffsets.of([ours[log]])
        for low, high in zip(mine.starts, mine.ends, strict=True):
            for start, end in other.within(int(low), int(high)):
                yield Range(log, start, end, f"the offset is in the file {path} too")


def _findings(lake: str, file: LiveFile, result: Comparison) -> Iterator[PlacedFinding]:
    topic = file.partition_values.get("topic")
    path = storage.join(table_uri(lake, TABLE), file.path)
    for rule, log, start, end, text in comparison_findings(TABLE, result.ranges(), result.doubts()):
        partition = int(log.rpartition("/")[2]) if log else None
        name = topic if partition is None else f"{topic}-{partition}"
        finding = found(rule, f"{name}: {text}", file=path, start_offset=start, end_offset=end)
        yield PlacedFinding(finding, log or None, topic, partition)
