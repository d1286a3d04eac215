"""The tasks of ``ingest`` in a run whose ``validate`` and ``publish`` follow, and what they hand to these jobs.

Logs that only grow are validated with the copy. Rows are written too where ``publish`` will write the same files: for
segments with files of their own, and for a log with one new segment. Small segments that share files are read again.
Changes of earlier offsets are left to the jobs that follow.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from logcore.logs.model import readable_end
from logcore.segments.filenames import is_internal_topic
from spark_jobs.archived_rows.records_file import write_records
from spark_jobs.archived_rows.segment_pass import validate_one
from spark_jobs.contracts import IngestConfig
from spark_jobs.ingest.intake_results import IntakeExecutor, IntakeResults
from spark_jobs.ingest.log_growth import IngestLogPlan
from spark_jobs.ingest.segment_copy import CopyResult
from spark_jobs.ingest.taken_segment import ExpectedRows, SegmentTask, TakenSegment, take_segment
from spark_jobs.lake.delta.tables.snapshots import table_uri
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.segments.archive import archived
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.written_file import WrittenFile
from spark_jobs.policies.topic_policies import TopicPolicy

UNEVEN = 1.125
"""How much longer than others a worker may work for files that others could write too."""


def taken(config: IngestConfig, plans: Sequence[IngestLogPlan], executor: IntakeExecutor) -> list[CopyResult]:
    """Make the copies of some logs, in their order, and keep what was done besides for the jobs that follow."""
    tasks = _spread(_tasks(config, plans), executor.workers)
    sizes = [task.copy.bytes_to_read for task in tasks]
    results = executor.run(take_segment, tasks, sizes)
    for result in results:
        _keep(config, result, executor.results)
    return [result.copied for result in results]


def _tasks(config: IngestConfig, plans: Sequence[IngestLogPlan]) -> list[SegmentTask]:
    plain = [log for log in plans if log.tasks and not log.remote and not log.swaps and log.earlier is None]
    known = [log.observed.log for log in plain if log.known is not None]
    frontiers = {**dict.fromkeys(log.observed.log for log in plain), **frontier.read_frontiers(config.lake, known)}
    tasks = []
    for log in plans:
        is_plain = log.observed.log in frontiers
        rows = _expected_rows(config, log, frontiers[log.observed.log]) if is_plain else None
        tasks += [SegmentTask(copy, is_plain, rows) for copy in log.copies]
    return tasks


def _expected_rows(config: IngestConfig, log: IngestLogPlan, published_to: int | None) -> ExpectedRows | None:
    """What ``publish`` will write of a log, if its high watermark and its frontier stay."""
    row = log.observed
    if is_internal_topic(row.topic):
        return None
    start = max(published_to or 0, row.log_start_offset)
    end = readable_end.high_watermark(row.high_watermark)
    if end <= start:
        return None
    policy = config.policies.for_topic(row.topic) or TopicPolicy(row.topic, ())
    return ExpectedRows(
        start,
        end,
        config.as_of_ms,
        config.policies.compression_of(row.topic),
        # Offsets that waited before lie in older segments.
        is_alone=len(log.tasks) == 1 and (log.known is None or published_to == log.known.next_offset),
        least_bytes=0 if config.at_once else policy.publish_min_bytes,
    )


def _spread(tasks: Sequence[SegmentTask], workers: int) -> list[SegmentTask]:
    """Leave files of large segments to ``publish`` where one worker would write while the others wait."""
    sizes = [task.copy.bytes_to_read for task in tasks]
    most = UNEVEN * sum(sizes) / workers
    loads, made = [0] * workers, list(tasks)
    for at in sorted(range(len(tasks)), key=lambda at: -sizes[at]):  # as workers get them
        load = loads[0] + sizes[at]
        heapq.heapreplace(loads, load)
        if load > most:
            made[at] = SegmentTask(tasks[at].copy, tasks[at].validates, tasks[at].rows, writes_several=False)
    return made


def _keep(config: IngestConfig, result: TakenSegment, results: IntakeResults) -> None:
    segment, validated = result.copied.segment, result.validated
    if segment is None or validated is None:
        return
    (row,) = archived([segment], config.run_id, config.as_of_ms)
    results.put(partial(validate_one, config.lake), row, validated, list(_paths(config.lake, validated.files.items())))
    for task, written in result.written:
        files = _paths(config.lake, [("records", file) for file in written.files])
        results.put(write_records, task, written, list(files))


def _paths(lake: str, files: Iterable[tuple[str, WrittenFile]]) -> Iterator[str]:
    return (storage.join(table_uri(lake, table), file.path) for table, file in files)
