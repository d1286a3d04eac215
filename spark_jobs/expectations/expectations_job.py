"""``expectations``: checks what was published, in the table itself.

    measure   counts of every range, over the files of `records` that may have it   (workers)
    join      with the ledger, the batches' verdicts and the frontier               (driver)
    check     plain comparisons, and Great Expectations for the suites of policies  (driver)
              with many rows on Spark, also each row with the Spark engine of Great Expectations
    show      a page under `<lake>/data_docs`                                       (driver)

Neither the number of rows nor their order is taken from a file's statistics: rows are read.

Counts the rows of ``records`` of one log in the table's files.

Runs in a worker, one call per log. Rows are read. Statistics only select the files and row groups that can have rows of
the range. Memory is a row group, and a bitmap where offsets do not rise from row to row.

Pages with the results of expectations: one page for each of the newest runs, and an index of these.

A page needs no script and no other host. It has counts and coordinates, never keys or values of records, so it can be
shown to anyone. The same results give the same page.
"""

from __future__ import annotations

import datetime
import html
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logcore.columns.records_columns import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from logcore.errors import CorruptionReason
from logcore.logs.model.findings import found
from logcore.logs.model.offset_ledger import publish_end
from logcore.segments.side_files.time_index import NO_TIMESTAMP
from spark_jobs.contracts import ExpectationsConfig, JobReport, LogChange
from spark_jobs.engine.executor import Executor
from spark_jobs.errors import UsageError
from spark_jobs.expectations.range_checks import (
    BY_COUNTS,
    BY_SPARK,
    CHECKS,
    COMPLETENESS,
    CRITICAL,
    DECODED_CHECKS,
    ROW_COUNT,
    SUITE,
    FrameRow,
    evaluate,
    is_success,
)
from spark_jobs.lake.delta.files.file_contents import FileUnreadable, batches_of, may_meet, opened, within
from spark_jobs.lake.delta.files.live_files import LiveFile, newest_files
from spark_jobs.lake.delta.tables.snapshots import read_rows, table_uri
from spark_jobs.lake.ledger import finding_rows, frontier
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.lake.segments.ledger_ranges import records_within, with_published
from spark_jobs.lake.store import deletion, storage
from spark_jobs.lake.store.written_file import is_own_file
from spark_jobs.lake.view import expectation_results
from spark_jobs.outlines import ExpectationResult, RangePlan, RangesOutline, Scalar
from spark_jobs.placed_finding import PlacedFinding
from spark_jobs.reads import Reads

INDEX, VALIDATIONS = "index.html", "validations"
KEPT_PAGES = 500
"""Pages of the newest runs. A watch writes a page each round; all of them are listed for each new index."""
TITLE = "Expectations on published records"

_STYLE = """
:root { color-scheme: light dark; --line: #d5d9de; --head: #eef1f4; --bad: #b3261e; --good: #146c2e; }
@media (prefers-color-scheme: dark) { :root { --line: #444a52; --head: #262b31; --bad: #ff8a80; --good: #7bd88f; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5em; }
h1 { font-size: 1.4em; } h2 { font-size: 1.1em; margin-top: 1.6em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; } th { background: var(--head); }
td, th { border: 1px solid var(--line); padding: .25em .6em; text-align: left; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.failed { color: var(--bad); font-weight: 600; } .met { color: var(--good); }
"""

_IN_LOG = frozenset({"topic", "log_id", "partition"})
"""Columns of a range that its log already has."""
_OTHER_TESTS = {
    "one_frame_row_per_range": ("-", "Every range to check was counted."),
    "every_check_was_made": ("-", "Every expectation was evaluated on every range."),
}


def write_pages(
    directory: str,
    run_id: str,
    as_of_ms: int,
    outcomes: Sequence[ExpectationResult],
    frame: Sequence[FrameRow],
    checked_by: str,
) -> str:
    """Write the page of a run next to those of earlier runs, and the index of the newest :data:`KEPT_PAGES`.

    Older pages are deleted when the index no longer leads to them. The page of this run stays, also if its clock
    shows an earlier time than theirs.

    Returns:
        The path of the page.
    """
    moment = datetime.datetime.fromtimestamp(as_of_ms / 1000, datetime.UTC)
    folders = (VALIDATIONS, SUITE, urllib.parse.quote(run_id, safe=""), f"{moment:%Y%m%dT%H%M%S.%fZ}")
    path = storage.join(directory, *folders, "ranges.html")
    storage.put(path, run_page(run_id, moment.isoformat(timespec="seconds"), outcomes, frame, checked_by).encode())
    placed = {
        storage.relative(file.path, directory): file.placed_ms
        for file in deletion.own_files_below(storage.join(directory, VALIDATIONS))
        if file.path.endswith(".html")
    }
    own = storage.relative(path, directory)
    earlier = _newest_first(page for page in placed if page.count("/") == len(folders) and page != own)
    kept, dropped = earlier[: KEPT_PAGES - 1], earlier[KEPT_PAGES - 1 :]
    storage.put(storage.join(directory, INDEX), index_page([own, *kept]).encode())
    if dropped:
        before_ms = max(placed[page] for page in dropped) + 1
        deletion.delete_all_below(directory, dropped, placed_before_ms=before_ms)
    return path


def run_page(
    run_id: str, as_of: str, outcomes: Sequence[ExpectationResult], frame: Sequence[FrameRow], checked_by: str
) -> str:
    """The page of one run; ``checked_by`` is what checked the rows."""
    failed = [outcome for outcome in outcomes if not outcome.success]
    critical = sum(outcome.severity == CRITICAL for outcome in failed)
    verdict = f"Not met: {critical} critical expectations, {len(failed)} of {len(outcomes)} in all."
    tests = {check.name: (check.test, check.says) for check in (*CHECKS, *DECODED_CHECKS)} | _OTHER_TESTS
    places = {row["log"]: f"{row['topic_partition']} [{row['start_offset']}, {row['end_offset']})" for row in frame}
    expectations = []
    for outcome in outcomes:
        test, says = tests.get(outcome.name, ("-", "An expectation of a suite that a policy names."))
        at = ", ".join(str(places.get(log, log)) for log in outcome.failing)
        cells = [_cell(text) for text in (outcome.name, says, test, outcome.severity, outcome.observed)]
        expectations.append([*cells, _result(outcome), _cell(at)])
    columns = [column for column in (frame[0] if frame else ()) if column not in _IN_LOG]
    body = (
        f'<p><a href="{"../" * 4}{INDEX}">All runs</a></p>\n<h1>{TITLE}</h1>\n'
        f"<p>Run <b>{html.escape(run_id)}</b>, as of {html.escape(as_of)}. "
        f'<span class="{"failed" if critical else "met"}">{verdict}</span> '
        f"Rows were checked by {html.escape(checked_by)}.</p>\n<h2>Expectations</h2>\n"
        + _table(("expectation", "meaning", "test", "severity", "observed", "result", "not met by"), expectations)
        + "<h2>Ranges</h2>\n"
        + _table(columns, [[_cell(row.get(column)) for column in columns] for row in frame])
    )
    return _page(f"{TITLE}: {run_id}", body)


def index_page(pages: Iterable[str]) -> str:
    """The list of runs, the latest first.

    Args:
        pages: Paths as ``validations/<suite>/<run>/<time>/<name>.html``.
    """
    rows = []
    for page in _newest_first(pages):
        _, suite, run, moment, *_ = page.split("/")
        link = f'<a href="{html.escape(urllib.parse.quote(page))}">{html.escape(urllib.parse.unquote(run))}</a>'
        rows.append([f"<td>{link}</td>", _cell(moment), _cell(suite)])
    return _page(TITLE, f"<h1>{TITLE}</h1>\n" + _table(("run", "as of", "suite"), rows))


def _newest_first(pages: Iterable[str]) -> list[str]:
    return sorted(pages, key=lambda page: (page.split("/")[3], page), reverse=True)


def _page(title: str, body: str) -> str:
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(column.replace('_', ' '))}</th>" for column in columns)
    lines = "".join(f"<tr>{''.join(row)}</tr>\n" for row in rows)
    return f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}</tbody>\n</table></div>\n'


def _cell(value: Scalar) -> str:
    if isinstance(value, int):
        return f'<td class="number">{value}</td>'
    return f"<td>{'' if value is None else html.escape(str(value))}</td>"


def _result(outcome: ExpectationResult) -> str:
    return '<td class="met">met</td>' if outcome.success else '<td class="failed">not met</td>'


COLUMNS = ("partition", "log_id", "offset", "timestamp", "timestamp_ms")
CHUNK_ROWS = 65_536
WINDOW_OFFSETS = 1 << 26
"""Offsets per pass of a count of distinct offsets, where they are not sorted."""


@dataclass(frozen=True, slots=True)
class CountTask:
    """A range of a log, and the files that may have rows of it, by their lowest offset."""

    log_id: str
    partition: int
    start_offset: int
    end_offset: int
    files: tuple[str, ...]

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return Reads(f"{self.log_id}/{self.partition}", None, self.start_offset, self.end_offset)


@dataclass(slots=True)
class RowCounts:
    """Counts of a range; the offsets are None where it has no row."""

    rows: int = 0
    distinct_offsets: int = 0
    min_offset: int | None = None
    max_offset: int | None = None
    non_rising_offsets: int = 0
    """Rows whose offset is not above that of the row before it in the same file."""
    unexpected_null_timestamps: int = 0
    """Rows without a timestamp whose milliseconds are a valid one."""


class ByPlace:
    """Files of ``records`` by topic and partition."""

    def __init__(self, files: Iterable[LiveFile]) -> None:
        self._files: dict[tuple[str | None, int | None], list[LiveFile]] = {}
        for file in files:
            self._files.setdefault((file.partition_values.get("topic"), file.partition), []).append(file)

    def of(self, topic: str, partition: int, log_id: str, start: int, end: int) -> tuple[LiveFile, ...]:
        """Files that may have rows of a range of a log, by their lowest offset."""
        chosen = [
            file
            for known in (partition, None)
            for file in self._files.get((topic, known), ())
            if file.may_have(log_id, partition, start, end)
        ]
        return tuple(sorted(chosen, key=lambda file: (file.least.get("offset", -1), file.path)))


def count_rows(task: CountTask) -> RowCounts:
    """Count the rows of a range."""
    counts = RowCounts()
    rises = True
    highest = -1
    for path in task.files:
        before = -1
        for chunk in _chunks(path, task, COLUMNS):
            offsets = chunk.column("offset").to_numpy(zero_copy_only=False)
            counts.rows += len(offsets)
            falls = int((np.diff(offsets, prepend=before) <= 0).sum())
            # Only our files must have this order: other engines may use any layout.
            counts.non_rising_offsets += falls if is_own_file(path) else 0
            rises &= not falls and int(offsets[0]) > highest
            before = int(offsets[-1])
            low, high = int(offsets.min()), int(offsets.max())
            counts.min_offset = low if counts.min_offset is None else min(counts.min_offset, low)
            counts.max_offset = highest = max(highest, high)
            counts.unexpected_null_timestamps += _lost_timestamps(chunk)
    counts.distinct_offsets = counts.rows if rises else _distinct(task, counts)
    return counts


def _lost_timestamps(chunk: pa.RecordBatch) -> int:
    milliseconds = chunk.column("timestamp_ms")
    is_late_enough = pc.greater_equal(milliseconds, pa.scalar(MIN_TIMESTAMP_MS))
    fits = pc.and_(is_late_enough, pc.less_equal(milliseconds, pa.scalar(MAX_TIMESTAMP_MS)))
    could_be = pc.and_(fits, pc.not_equal(milliseconds, pa.scalar(NO_TIMESTAMP)))
    return pc.sum(pc.and_(pc.is_null(chunk.column("timestamp")), could_be)).as_py() or 0  # type: ignore[type-var]


def _distinct(task: CountTask, counts: RowCounts) -> int:
    """Number of distinct offsets, counted window by window."""
    if counts.min_offset is None or counts.max_offset is None:
        return 0
    total = 0
    for low in range(counts.min_offset, counts.max_offset + 1, WINDOW_OFFSETS):
        high = min(low + WINDOW_OFFSETS, counts.max_offset + 1)
        seen = np.zeros(high - low, dtype=bool)
        window = CountTask(task.log_id, task.partition, low, high, task.files)
        for path in task.files:
            for chunk in _chunks(path, window, ("partition", "log_id", "offset")):
                seen[chunk.column("offset").to_numpy(zero_copy_only=False) - low] = True
        total += int(seen.sum())
    return total


def _chunks(path: str, task: CountTask, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read the rows of the range in file order, never an empty chunk.

    A lost file has none: other checks report it.
    """
    name = path.rpartition("/")[2]
    with suppress(FileUnreadable), opened(path, name, read_dictionary=["log_id"]) as file:
        span = task.start_offset, task.end_offset
        groups = [at for at in range(file.num_row_groups) if may_meet(file.metadata.row_group(at), offset=span)]
        for chunk in batches_of(file, path, name, CHUNK_ROWS, row_groups=groups, columns=list(columns)):
            rows = within(chunk, (task.log_id, task.partition), *span)
            if rows.num_rows:
                yield rows


DOCS = "data_docs"
OWN = frozenset((*(check.name for check in (*CHECKS, *DECODED_CHECKS)), ROW_COUNT, COMPLETENESS))
"""Names of our own expectations; others are of a user's suite."""


@dataclass(frozen=True, slots=True)
class ExpectationsPlan:
    """What there is to check."""

    ranges: tuple[RangePlan, ...]
    spans: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    """By log: the offsets that the ledger says are published and visible."""

    @property
    def is_empty(self) -> bool:
        """Whether no range was named."""
        return not self.ranges

    @property
    def task_bytes(self) -> int | None:
        """Bytes that the tasks read; None: there are no tasks."""
        return 0 if self.ranges else None

    @property
    def outline(self) -> RangesOutline:
        """What a dry run says of it."""
        return RangesOutline(self.ranges)


def plan(config: ExpectationsConfig) -> ExpectationsPlan:
    """Plan the ranges of the configuration, with their expected contents from the lake's other tables.

    Raises:
        UsageError: The lake does not have a log, or a range ends before it begins.
    """
    logs = sorted(config.ranges)
    if not logs:
        return ExpectationsPlan(())
    rows = archive.read_logs(config.lake, logs)
    ledger = frontier.read_ledger(config.lake, logs)
    frontiers = frontier.read_frontiers(config.lake, logs)
    failures = _crc_failures(config.lake, logs)
    ranges, spans = [], {}
    for log in logs:
        start, end = config.ranges[log]
        if log not in rows:
            raise UsageError(f"The lake {config.lake} has no log {log}.")
        if not 0 <= start < end:
            raise UsageError(f"Log {log}: [{start}, {end}) is not a range of offsets.")
        # Offsets filled below the frontier are published only by a replacement.
        published = with_published(config.lake, ledger.get(log, ()), frontiers[log])
        expected = _published_records(config.lake, published, start, end)
        spans[log] = [(row.start_offset, row.end_offset) for row in published if row.has_rows]
        at = failures.get(log, [])
        ranges.append(_range(rows[log], start, end, expected, at, ledger.get(log, ()), frontiers[log] or 0))
    return ExpectationsPlan(tuple(ranges), spans)


def apply(plan: ExpectationsPlan, config: ExpectationsConfig, executor: Executor) -> JobReport[RangesOutline]:
    """Measure, check and report. Ranges that were due are recorded as checked whatever the result."""
    counted = _measure(executor, config.lake, plan.ranges)
    frame = _frame(plan.ranges, counted)
    of_rows, of_decoded = _of_rows(config, plan, executor)
    of_suites = _of_suites(config, plan.ranges, executor)
    outcomes = (*evaluate(frame, len(plan.ranges), of_rows), *of_decoded, *of_suites)
    checked_by = BY_COUNTS if of_rows is None else BY_SPARK
    docs = storage.join(config.lake, DOCS)
    page = write_pages(docs, config.run_id, config.as_of_ms, outcomes, frame, checked_by)
    new = finding_rows.record(config.lake, _findings(plan, outcomes), config.run_id, config.as_of_ms)
    _mark_checked(config)
    return JobReport.of(
        config,
        RangesOutline(expectations=outcomes, frame=tuple(frame), data_docs=page),
        changed=tuple(LogChange(r.log, r.topic, r.partition, row) for r, row in zip(plan.ranges, frame, strict=True)),
        findings=tuple(new),
        metrics={
            "success": is_success(outcomes),
            "ranges": len(plan.ranges),
            "rows": sum(counts.rows for counts in counted),
            "expectations": len(outcomes),
            "failed": sum(not outcome.success for outcome in outcomes),
            "data_docs": page,
            "rows_checked_by": checked_by,
        },
    )


def _of_rows(
    config: ExpectationsConfig, plan: ExpectationsPlan, executor: Executor
) -> tuple[dict[str, ExpectationResult] | None, list[ExpectationResult]]:
    """Results of our own checks that are on rows, of `records` by name, and of decoded topics; None: by counts."""
    spark = getattr(executor, "session", None)
    rows = sum(each.expected_rows for each in plan.ranges)
    is_few = not rows or rows < config.policies.lake.expectations_rows
    if spark is None or (is_few and not config.is_whole):
        return None, []
    from spark_jobs.expectations.built_in_suite import check_decoded, check_records

    policies = config.policies
    decoded = [each for each in plan.ranges if (policy := policies.for_topic(each.topic)) and policy.decodes]
    found = {each.name: each for each in check_records(config.lake, plan.ranges, plan.spans, spark)}
    return found, check_decoded(config.lake, decoded, spark) if decoded else []


def _of_suites(config: ExpectationsConfig, ranges: Sequence[RangePlan], executor: Executor) -> list[ExpectationResult]:
    """Results of the suites that the policies name; without one, Great Expectations is not imported."""
    policies = config.policies
    of_topics = {each.topic: policy for each in ranges if (policy := policies.for_topic(each.topic))}
    suites = {topic: policy.expectations_suite for topic, policy in of_topics.items()}
    of_decoded = {topic: policy.decode_expectations_suite for topic, policy in of_topics.items()}
    if not any((*suites.values(), *of_decoded.values())):
        return []
    from spark_jobs.expectations.user_suites import evaluate_suites

    spark = getattr(executor, "session", None)
    return [
        *evaluate_suites(config.lake, ranges, suites, spark=spark),
        *evaluate_suites(config.lake, ranges, of_decoded, decoded=True, spark=spark),
    ]


def _range(
    row: LogRow,
    start: int,
    end: int,
    expected: int,
    failures: Sequence[int],
    ledger: Sequence[LedgerRow],
    published_to: int,
) -> RangePlan:
    return RangePlan(
        log=row.log,
        topic=row.topic,
        log_id=row.log_id,
        partition=row.partition,
        start_offset=start,
        end_offset=end,
        expected_rows=expected,
        crc_failures=sum(start <= offset < end for offset in failures),
        crc_failures_of_log=len(failures),
        log_end_offset=row.next_offset,
        frontier=published_to,
        unpublished_decided_offsets=publish_end(ledger, published_to) - published_to,
    )


def _crc_failures(lake: str, logs: Sequence[str]) -> dict[str, list[int]]:
    """Expected offsets of batches with a wrong CRC, by log; without replaced and retained-away bytes."""
    # `batches` has many rows and many files: read it only for segments with bytes in quarantine.
    damaged: list[tuple[str, str, object]] = [("log", "in", list(logs)), ("quarantined_bytes", ">=", 1)]
    ids = read_rows(lake, "validations", ["segment_id"], damaged)["segment_id"].to_pylist()
    if not ids:
        return {}
    where: list[tuple[str, str, object]] = [("segment_id", "in", ids), ("verdict", "==", str(CorruptionReason.CRC))]
    failures: dict[str, list[int]] = {}
    found = read_rows(lake, "batches", ["log", "segment_id", "base_offset"], where).to_pylist()
    segments = archive.ingested_segments(lake, sorted({row["log"] for row in found}))
    feeding = {s.segment_id for s in segments if s.retired_because != archive.RETENTION}
    for row in found:
        if row["segment_id"] in feeding:
            failures.setdefault(row["log"], []).append(row["base_offset"])
    return failures


def _published_records(lake: str, ledger: Sequence[LedgerRow], start: int, end: int) -> int:
    """Records that the ledger counts as visible and published in [start, end)."""
    due = (row for row in ledger if row.has_rows and row.end_offset > start and row.start_offset < end)
    return sum(records_within(lake, row, start, end) for row in due)


def _measure(executor: Executor, lake: str, ranges: Sequence[RangePlan]) -> list[RowCounts]:
    """Count the rows of each range."""
    files = ByPlace(newest_files(lake, "records"))
    root = table_uri(lake, "records")
    chosen = [files.of(r.topic, r.partition, r.log_id, r.start_offset, r.end_offset) for r in ranges]
    tasks = [
        CountTask(
            r.log_id, r.partition, r.start_offset, r.end_offset, tuple(storage.join(root, file.path) for file in mine)
        )
        for r, mine in zip(ranges, chosen, strict=True)
    ]
    return executor.run(count_rows, tasks, [sum(file.size for file in mine) for mine in chosen])


def _frame(ranges: Sequence[RangePlan], measured: Sequence[RowCounts]) -> list[FrameRow]:
    return [
        {"topic_partition": f"{r.topic}-{r.partition}"} | asdict(r) | {"lag": r.lag} | asdict(counted)
        for r, counted in zip(ranges, measured, strict=True)
    ]


def _findings(plan: ExpectationsPlan, outcomes: Sequence[ExpectationResult]) -> list[PlacedFinding]:
    """Build an error for each failed critical expectation and log. The report and its pages have the less severe
    results.
    """
    ranges = {each.log: each for each in plan.ranges}
    placed = []
    for outcome in outcomes:
        if outcome.success or outcome.severity != CRITICAL:
            continue
        for log in outcome.failing:
            r = ranges[log]
            message = (
                f"{r.topic}-{r.partition}: offsets [{r.start_offset}, {r.end_offset}) of the table records do not "
                f"meet the expectation {outcome.name}{'' if outcome.name in OWN else f': {outcome.observed}'}."
            )
            finding = found("expectation-failed", message, start_offset=r.start_offset, end_offset=r.end_offset)
            placed.append(PlacedFinding(finding, r.log, r.topic, r.partition))
        if not outcome.failing:
            message = f"The expectation {outcome.name} on published ranges is not met: {outcome.observed}."
            placed.append(PlacedFinding(found("expectation-failed", message)))
    return placed


def _mark_checked(config: ExpectationsConfig) -> None:
    """Record the ranges that begin where checking ended before: others would hide the offsets between."""
    pending = expectation_results.pending_ranges(config.lake)
    due = {
        log: (start, end)
        for log, (start, end) in config.ranges.items()
        if log in pending and start <= pending[log][0] and end <= pending[log][1]
    }
    if due:
        expectation_results.mark_checked(config.lake, due, config.run_id)
