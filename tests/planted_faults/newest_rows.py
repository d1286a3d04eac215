"""Planted into what keeps the newest row of each key: the job `latest`, and the state as of an offset or a time."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

LATEST = "tests/jobs/test_latest.py"
SPREAD = "tests/unit/spark_jobs/latest/test_spread_log.py"
SPREAD_ROWS = "tests/spark/test_spread_latest.py"
LATEST_DECODED = "tests/jobs/test_latest_decoded.py"
STATE = "tests/jobs/test_state.py"
MANY_RUNS = "after_each_of_many_runs"

FAULTS = (
    Fault(
        "a tombstone stays as a row",
        "spark_jobs/newest/newest_rows.py",
        'if rows["value"].null_count and not keeps_tombstones:',
        "if not keeps_tombstones and rows.num_rows < 0:",
        (LATEST, "-k", MANY_RUNS),
    ),
    Fault(
        "a record without a key is the state of an empty key",
        "spark_jobs/newest/newest_rows.py",
        "    if keys.null_count:\n",
        "    if keys.null_count == batch.num_rows:\n",
        (LATEST, "-k", MANY_RUNS),
    ),
    Fault(
        "rows that are computed again count twice",
        "spark_jobs/latest/latest_job.py",
        "rows = counts.rows + (0 if plan.replaces else plan.rows[span.log] or 0)",
        "rows = counts.rows + (plan.rows[span.log] or 0)",
        (LATEST, "-k", "filled_below_the_frontier"),
    ),
    Fault(
        "rows below the frontier are read and counted again",
        "spark_jobs/following/topic_plan.py",
        "for start in (0 if replaces else self.main[log.log] or 0,)",
        "for start in (0,)",
        (LATEST, "-k", "counted_once"),
    ),
    Fault(
        "an older row wins over a newer one",
        "spark_jobs/newest/newest_keys.py",
        "later = newest.find(high, low) < offsets",
        "later = offsets >= 0",
        (LATEST, "-k", MANY_RUNS),
    ),
    Fault(
        "an older row that comes later wins in many tasks",
        "spark_jobs/latest/latest_task.py",
        "rows = rows.taken(newest.find(rows.high, rows.low) < rows.numbers)",
        "rows = rows.taken(rows.numbers >= 0)",
        (SPREAD, "-k", "whatever_order"),
    ),
    Fault(
        "rows of a file are in two parts of a large log",
        "spark_jobs/latest/latest_task.py",
        "and (file.min_offset or 0) > greatest:",
        "and (file.min_offset or 0) >= 0:",
        (SPREAD, "-k", "in_one_part"),
    ),
    Fault(
        "new rows of a part are not those between its borders",
        "spark_jobs/latest/latest_task.py",
        "list(pairwise([*cuts, task.span.end]))",
        "[(cut, task.span.end) for cut in cuts]",
        (SPREAD, "-k", "in_one_part"),
    ),
    Fault(
        "the first offset of each part is lost",
        "spark_jobs/newest/packed_rows.py",
        "np.searchsorted(offsets, (first, end)).tolist()",
        "np.searchsorted(offsets, (first + 1, end)).tolist()",
        (LATEST, "-k", MANY_RUNS),
    ),
    Fault(
        "offsets that are far apart are packed in four bytes",
        "spark_jobs/newest/packed_rows.py",
        "kind = _OFFSETS if end - first <= 1 << 32 else _WIDE",
        "kind = _OFFSETS",
        (SPREAD, "-k", "whatever_order"),
    ),
    Fault(
        "one task does a log with more keys than its map has room for",
        "spark_jobs/latest/latest_task.py",
        "return of_span > self.spread_bytes or self.new_rows > self.keys_in_memory",
        "return of_span > self.spread_bytes",
        (SPREAD, "-k", "a_log_is_large"),
    ),
    Fault(
        "an error in one of the many tasks of a log is not an error of the log",
        "spark_jobs/latest/latest_task.py",
        "        raise ShuffleEnded(failure(error)) from error\n",
        "        return\n",
        (SPREAD_ROWS, "-k", "gone and local"),
    ),
    Fault(
        "older files are left out before each new key was found",
        "spark_jobs/latest/latest_task.py",
        "left -= len(staying) - int(np.count_nonzero(staying))",
        "left -= len(staying)",
        (LATEST, "-k", "known_keys"),
    ),
    Fault(
        "files are read from the oldest one on",
        "spark_jobs/latest/latest_task.py",
        "for file in reversed(task.held):",
        "for file in task.held:",
        (LATEST, "-k", "from_the_newest_one_on"),
    ),
    Fault(
        "local copies of an earlier process with the same id are used",
        "spark_jobs/lake/store/local_copies.py",
        'split()[_START]}"',
        'split()[0][:0]}1"',
        ("tests/unit/spark_jobs/lake/store/test_local_copies.py", "-k", "same_id"),
    ),
    Fault(
        "a latest table is not computed again after the decoded one was",
        "spark_jobs/latest/latest_job.py",
        "and replaced[0] != replaced[1]:",
        "and replaced[0] is None:",
        (LATEST_DECODED, "-k", "written_again"),
    ),
    Fault(
        "a latest table has offsets that are not decoded yet",
        "spark_jobs/latest/latest_job.py",
        "else min(published, end)",
        "else max(published, end)",
        (LATEST_DECODED, "-k", "waits_for_the_decoded_table"),
    ),
    Fault(
        "the outdated row of a changed key stays",
        "spark_jobs/latest/latest_task.py",
        "_joined([~newest.added(batch[key]) for batch",
        "_joined([newest.added(batch[key]) | True for batch",
        (LATEST, "-k", MANY_RUNS),
    ),
    Fault(
        "keys of another partition are merged",
        "spark_jobs/latest/latest_job.py",
        "if (file.log_id, file.partition) == (span.log_id, span.partition)]",
        "if file.log_id == span.log_id]",
        (LATEST, "-k", MANY_RUNS),
    ),
    Fault(
        "keys of a backfill are not computed again",
        "spark_jobs/latest/latest_job.py",
        "        if why is not None:\n",
        "        if why == topic:\n",
        (LATEST, "-k", "filled_below_the_frontier"),
    ),
    Fault(
        "rows that were deleted are not noticed",
        "spark_jobs/latest/latest_job.py",
        "why = _changed(config.lake, topic, followed.logs, found, history, files) or next(",
        "why = None and next(",
        (LATEST, "-k", "bring_earlier_ones_back"),
    ),
    Fault(
        "rows of two policies are in one table",
        "spark_jobs/latest/latest_job.py",
        "if not replaces and tables.has_other_policy(digest):",
        "if False:",
        (LATEST, "-k", "another_policy_waits"),
    ),
    Fault(
        "all tasks of a job that failed on Spark are done the other way",
        "spark_jobs/engine/executor.py",
        "        return _in_halves(executor, work, tasks, sizes, died)\n",
        "        return [_alone(executor, work, second_try(task), died) for task in tasks]\n",
        ("tests/unit/spark_jobs/engine/test_surviving_tasks.py",),
    ),
    Fault(
        "an incomplete answer is not marked",
        "spark_jobs/lake_commands/state/state_command.py",
        "return not any(log.lost for log in self.logs)",
        "return not any(log.lost for log in self.logs[1:])",
        (STATE, "-k", "incomplete"),
    ),
    Fault(
        "offsets that the source cleaned are not lost",
        "spark_jobs/lake_commands/state/state_command.py",
        'OffsetState.COMPACTED: "compacted",\n',
        "",
        (STATE, "-k", "source_was_cleaned"),
    ),
    Fault(
        "gaps inside a batch are not lost",
        "spark_jobs/lake_commands/state/state_command.py",
        "return counts.records + counts.markers < cut - row.start_offset",
        "return counts.records < 0",
        (STATE, "-k", "gaps_inside_a_batch"),
    ),
    Fault(
        "the record at the cut belongs to the state",
        "spark_jobs/lake_commands/state/state_command.py",
        "Span(state.topic, of.log_id, of.partition, 0, log.cut.end),",
        "Span(state.topic, of.log_id, of.partition, 0, log.cut.end + 1),",
        (STATE, "-k", "seventh_offset"),
    ),
    Fault(
        "a time is cut at its last early record",
        "spark_jobs/lake/published/log_cuts.py",
        'found = int(np.asarray(batch["offset"])[late].min())',
        'found = int(np.asarray(batch["offset"])[late].max())',
        (STATE, "-k", "first_late_record or is_not_before_it"),
    ),
)
