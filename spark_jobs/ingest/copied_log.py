"""What the copies of one log made: its new segments, its new row in ``logs``, and findings."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from logcore.logs.model.findings import Finding
from logcore.logs.model.offset_ledger import EVIDENCE_REMOTE
from logcore.storage.objects.remembered_reads import RememberedRead
from spark_jobs.contracts import LogChange
from spark_jobs.ingest import late_segments, remote_ranges, segment_slices
from spark_jobs.ingest.log_growth import IngestLogPlan, lost_at_end, of_log
from spark_jobs.ingest.segment_copy import CopyResult, CopyTask
from spark_jobs.ingest.segment_slices import Swap
from spark_jobs.lake.segments.archive import GIVEN_UP, LogRow, Segment
from spark_jobs.placed_finding import PlacedFinding


@dataclass(frozen=True, slots=True)
class CopiedLog:
    """The result of one log's plan: rows to commit and findings to report."""

    plan: IngestLogPlan
    row: LogRow
    added: tuple[Segment, ...] = ()
    swaps: tuple[tuple[Swap, tuple[Segment, ...]], ...] = ()
    """Swaps that can be committed, each with its segments among those added."""
    rows: tuple[LogRow, ...] = ()
    placed: tuple[PlacedFinding, ...] = field(default=())
    last_headers: tuple[tuple[RememberedRead, ...], ...] = ()
    """Of the copies of growth, in their order."""
    is_stuck: bool = False
    """Whether something of the plan could not be copied."""

    @property
    def change(self) -> LogChange:
        """What a report says of the log."""
        row, added = self.row, self.added
        return LogChange(
            row.log,
            row.topic,
            row.partition,
            {
                "segments": len(added),
                "bytes": sum(segment.size for segment in added),
                "start_offset": min((s.base_offset for s in added), default=row.next_offset),
                "end_offset": row.next_offset,
                "high_watermark": row.high_watermark,
                "stopped": row.stopped,
            },
        )


def copied_log(log: IngestLogPlan, results: Sequence[CopyResult]) -> CopiedLog:
    """Return what the copies of a log made.

    Args:
        log: The plan.
        results: Of its copies, in their order.
    """
    left = iter(results)
    said: list[Finding] = []
    added: list[Segment] = []
    swaps: list[tuple[Swap, tuple[Segment, ...]]] = []
    is_stuck = False
    for swap in log.swaps:
        made, failures = segment_slices.copied_parts(swap, list(itertools.islice(left, len(swap.parts))))
        said += failures or swap.findings
        is_stuck |= bool(failures)
        if failures and swap is log.cut:
            # Growth continues at the cut, so without the cut nothing fits.
            placed = tuple(of_log(log.observed, f) for f in said)
            return CopiedLog(log, log.known or log.observed, placed=placed, is_stuck=True)
        if not failures:
            added += made
            swaps.append((swap, tuple(made)))
    of_remote = list(itertools.islice(left, len(log.remote)))
    from_remote = [result.segment for result in of_remote if result.segment is not None]
    results = list(left)
    said += [finding for result in (*of_remote, *results) for finding in result.findings]
    copied, passed, failure = _until_failure(log.tasks, results)
    row = _grown(log.observed, copied, passed, failure, log.given_up_to).without_given_up()
    tried = [*zip(log.remote, of_remote, strict=True), *zip(log.tasks, results, strict=True)]
    for task, result in tried:
        if result.failed and (task in passed or task in log.remote) and task.next_base_offset is not None:
            why = result.findings[-1]
            reason = why.message.removesuffix(".")
            said.append(remote_ranges.left_out(row, task.first_offset, task.next_base_offset, reason, why.file))
    if added and log.fill is not None:
        row = replace(row, gaps=late_segments.gaps_without(row, added))
    if from_remote:
        row = remote_ranges.with_start_lowered(row, from_remote)
        said += remote_ranges.read_findings(row, from_remote)
        added += from_remote
    added += copied
    if log.needs_bytes and not added:
        return CopiedLog(log, row, placed=tuple(of_log(row, f) for f in said), is_stuck=True)
    said += log.said
    if row.stopped is None and not log.waits:
        said += lost_at_end(row, log.given_up_to, log.stated_ends)
    rows = ([row] if log.is_news(row) else []) + ([log.earlier] if log.earlier is not None else [])
    is_stuck |= _is_final(log, failure) or (bool(of_remote) and not added)
    placed = tuple(of_log(row, f) for f in said)
    headers = tuple(result.last_header for result in results[: len(copied) + len(passed)])
    return CopiedLog(log, row, tuple(added), tuple(swaps), tuple(rows), placed, headers, is_stuck)


def _is_final(log: IngestLogPlan, failure: _Failure | None) -> bool:
    """Whether a later round of the same run would fail as well. After a remote segment it takes the local part."""
    if failure is None:
        return False
    is_known = log.known is not None and log.known.stopped_file == failure.task.seen
    return is_known or not failure.task.is_remote


@dataclass(frozen=True, slots=True)
class _Failure:
    """The first segment of a log that could not be copied to its end, and why."""

    task: CopyTask
    finding: Finding


def _until_failure(
    tasks: Sequence[CopyTask], results: Sequence[CopyResult]
) -> tuple[list[Segment], list[CopyTask], _Failure | None]:
    """Segments before the first one that could not be copied, and that failure: the archive must have no gaps.

    Remote segments that failed are passed by, if a later segment was copied: their offsets stay remote, and later runs
    copy them one by one.
    """
    copied: list[Segment] = []
    passed: list[CopyTask] = []
    waiting: list[_Failure] = []
    for task, result in zip(tasks, results, strict=True):
        if result.segment is not None:
            passed += [failure.task for failure in waiting]
            waiting.clear()
            copied.append(result.segment)
        if result.failed:
            waiting.append(_Failure(task, result.findings[-1]))
            if not task.is_remote or task.next_base_offset is None:
                break
    return copied, passed, waiting[0] if waiting else None


def _grown(
    observed: LogRow,
    copied: Sequence[Segment],
    passed: Sequence[CopyTask],
    failure: _Failure | None,
    given_up_to: int | None,
) -> LogRow:
    row = replace(observed, next_offset=copied[-1].next_offset) if copied else observed
    left = [(task.first_offset, task.next_base_offset, EVIDENCE_REMOTE) for task in passed]
    if given_up_to is not None and given_up_to > row.next_offset:
        left.append((row.next_offset, given_up_to, GIVEN_UP))
    if left:
        gaps = list(dict.fromkeys([*row.gap_evidence, *left]))
        row = replace(row, gaps=json.dumps(gaps))
    if failure is None:
        return row
    stopped, because = failure.finding.rule, failure.finding.message
    return replace(row, stopped=stopped, stopped_because=because, stopped_file=failure.task.seen)
