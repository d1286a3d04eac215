"""Planted into what keeps the newest row of each key: the job `latest`, and the state as of an offset or a time."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

LATEST = "tests/jobs/test_latest.py"
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
        "rows that are computed again count twice",
        "spark_jobs/latest/latest_job.py",
        "rows = counts.rows + (0 if plan.replaces else plan.rows[span.log] or 0)",
        "rows = counts.rows + (plan.rows[span.log] or 0)",
        (LATEST, "-k", "filled_below_the_frontier"),
    ),
    Fault(
        "an older row wins over a newer one",
        "spark_jobs/newest/newest_keys.py",
        "later = newest.find(high, low) < offsets",
        "later = offsets >= 0",
        (LATEST, "-k", MANY_RUNS),
    ),
    Fault(
        "the outdated row of a changed key stays",
        "spark_jobs/latest/latest_task.py",
        "_joined([~newest.added(batch[key]) for batch",
        "_joined([newest.added(batch[key]) | True for batch",
        (LATEST, "-k", MANY_RUNS),
    ),
    Fault(
        "rows that were deleted are not noticed",
        "spark_jobs/latest/latest_job.py",
        "why = _changed(config.lake, topic, followed.logs, found, history, files) or next(",
        "why = None and next(",
        (LATEST, "-k", "bring_earlier_ones_back"),
    ),
    Fault(
        "an incomplete answer is not marked",
        "spark_jobs/lake_commands/state/state_command.py",
        "return not any(log.lost for log in self.logs)",
        "return not any(log.lost for log in self.logs[1:])",
        (STATE, "-k", "incomplete"),
    ),
    Fault(
        "the record at the cut belongs to the state",
        "spark_jobs/lake_commands/state/state_command.py",
        "Span(state.topic, of.log_id, of.partition, 0, log.cut.end),",
        "Span(state.topic, of.log_id, of.partition, 0, log.cut.end + 1),",
        (STATE, "-k", "seventh_offset"),
    ),
)
