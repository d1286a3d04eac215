"""What ``validate`` and ``publish`` will have to do with the segments that are being copied.

While a run takes in a log, the bytes of its new segments are in memory and the disk is busy with the copy. So the
executor may begin with the tasks of the jobs that follow. Nothing depends on these guesses: those jobs make their own
plans, and use a result only if they have exactly the same task.

    copied       the segment is validated
    validated    once all new segments of a log are: the log's records are written, as if every offset from its frontier
                 to the high watermark were visible

Logs with damage, with control records (transactions) or with changes of earlier offsets are left to ``publish``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from logcore.logs.model import readable_end
from logcore.segments.filenames import is_internal_topic
from spark_jobs.contracts import IngestConfig
from spark_jobs.ingest.log_growth import IngestLogPlan
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.segments.archive import LogRow, Segment, archived
from spark_jobs.row_files.archived_bytes import ArchivedBytes
from spark_jobs.row_files.records_file import write_records
from spark_jobs.tasks.executor import ExpectedTask
from spark_jobs.tasks.segment_copy import CopyResult
from spark_jobs.tasks.segment_pass import ValidatedSegment, validate_copied, validate_one


@dataclass(slots=True)
class _GrowingLog:
    """A log whose new segments are being copied and validated."""

    row: LogRow
    frontier: int | None
    """Next offset to publish; None: nothing was published."""
    is_published: bool
    """Whether ``publish`` is expected to write everything that is new."""
    missing: int
    """New segments that are not validated yet."""
    validated: dict[str, tuple[Segment, ValidatedSegment]] = field(default_factory=dict)
    """By segment id."""


class ExpectedTasks:
    """The tasks that follow from the results of copies and of tasks that followed from them.

    Args:
        config: What is being ingested.
        plans: The logs that grow.
    """

    def __init__(self, config: IngestConfig, plans: Sequence[IngestLogPlan]) -> None:
        self._lake = config.lake
        self._run_id = config.run_id
        self._as_of_ms = config.as_of_ms
        self._policies = config.policies
        plain = [p for p in plans if p.tasks and not p.remote and not p.swaps and p.earlier is None]
        frontiers = frontier.read_frontiers(config.lake, [p.observed.log for p in plain if p.known is not None])
        self._logs = {p.observed.log: _growing(config, p, frontiers) for p in plain}

    def follow(self, task: object, result: object) -> Sequence[ExpectedTask]:
        """What can begin now. A result that is not as expected ends what is expected of its log."""
        if isinstance(result, CopyResult):
            segment = result.segment
            if segment is None or result.failed or segment.log not in self._logs:
                return ()
            validate = partial(validate_one, self._lake)
            (segment,) = archived([segment], self._run_id, self._as_of_ms)
            return (ExpectedTask(validate, segment, partial(validate_copied, self._lake)),)
        if isinstance(result, ValidatedSegment) and isinstance(task, Segment):
            return self._published(self._logs[task.log], task, result)
        return ()

    def _published(self, log: _GrowingLog, segment: Segment, result: ValidatedSegment) -> Sequence[ExpectedTask]:
        log.validated[segment.segment_id] = segment, result
        if not log.is_published or len(log.validated) < log.missing or not all(map(_is_plain, log.validated.values())):
            return ()
        segments = sorted((segment for segment, _ in log.validated.values()), key=lambda each: each.base_offset)
        log_end = segments[-1].next_offset
        start = max(log.frontier or 0, log.row.log_start_offset)
        end = readable_end.high_watermark(log.row.high_watermark, log_end_offset=log_end)
        if end <= start:
            return ()
        splits = {name: result.counts.splits() for name, (_, result) in log.validated.items()}
        held = ArchivedBytes(self._lake, {log.row.log: segments}, splits, {})
        tasks = held.tasks(log.row, [(start, end)], self._as_of_ms, self._policies.compression_of(log.row.topic))
        return [ExpectedTask(write_records, task) for task in tasks]


def _growing(config: IngestConfig, plan: IngestLogPlan, frontiers: Mapping[str, int | None]) -> _GrowingLog:
    row, known = plan.observed, plan.known
    published = None if known is None else frontiers[row.log]
    # Scheduled runs let small growths wait, and offsets that waited before lie in older segments.
    is_whole = known is None or published == known.next_offset
    is_due = config.at_once and not is_internal_topic(row.topic)
    return _GrowingLog(row, published, is_whole and is_due, len(plan.tasks))


def _is_plain(validated: tuple[Segment, ValidatedSegment]) -> bool:
    counts = validated[1].counts
    return not (counts.quarantined_bytes or counts.tail_bytes or counts.control_records)
