"""``latest``: the newest row of each key and log of ``records`` in ``latest/<topic>``, exactly once.

    plan     per topic with a policy and per log [frontier of the table, frontier of ``records``)          (driver)
    keys     those of the new rows, looked up in the keys of the log's files: which rows are outdated     (workers)
    write    files that lost rows are written again without them; the newest of the new rows become a file (workers)
    commit   files, frontiers, policy and number of rows at once, guarded by the frontiers of the plan      (driver)

A task is of one log; a large log has many (`spread_log`). Files hold rows of one log in the order of offsets, so keys
that change often are in the newest files, and files of keys that rest stay as they are. Small files at the end of a log
are joined when they are written again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

from logcore.columns.kernels.families import Work
from logcore.columns.kernels.library import is_chosen
from spark_jobs.contracts import JobReport, LatestConfig, LogChange, Scalar
from spark_jobs.errors import JobError
from spark_jobs.following.commits import commit_topics, guards_of
from spark_jobs.following.topic_plan import FollowingPlan
from spark_jobs.lake.decoded.followed_topics import REPLACED, ROWS
from spark_jobs.lake.decoded.topic_tables import LATEST, latest_spec, topic_table
from spark_jobs.lake.delta.commits.commit_guards import Guard
from spark_jobs.lake.delta.table import Table
from spark_jobs.latest.latest_task import LatestResult, latest_rows
from spark_jobs.latest.plan import LatestTopicPlan, plan
from spark_jobs.outlines import FollowingOutline, LatestCounts, LatestOutline
from spark_jobs.tasks.executor import TaskFailed, run_surviving

if TYPE_CHECKING:
    from spark_jobs.latest.latest_task import LatestTask
    from spark_jobs.tasks.executor import Executor

__all__ = ["apply", "plan"]


def apply(
    plan: FollowingPlan[LatestTopicPlan], config: LatestConfig, executor: Executor | None
) -> JobReport[FollowingOutline[LatestOutline]]:
    """Bring each topic up to its frontiers; see :func:`~spark_jobs.following.commits.commit_topics`."""
    results = _results([task for topic in plan.due for task in topic.tasks], executor)
    commit = partial(_commit, config)
    return commit_topics(
        plan, config, results, lambda topic, _: topic.outline, commit, _metrics, used_executor=executor is not None
    )


def _results(tasks: Sequence[LatestTask], executor: Executor | None) -> Iterator[LatestResult]:
    """The result of each task; large logs are done one by one, when theirs is needed."""
    # Only the kernels find newest offsets in many tasks.
    spread = {at for at, task in enumerate(tasks) if task.is_large and is_chosen(Work.CLEAN)}
    whole = [task for at, task in enumerate(tasks) if at not in spread]
    done = iter(run_surviving(executor, latest_rows, whole, [task.size for task in whole], _died))
    for at, task in enumerate(tasks):
        yield _spread(task, executor) if at in spread else next(done)


def _spread(task: LatestTask, executor: Executor | None) -> LatestResult:
    from spark_jobs.latest.spread_log import spread_rows

    try:
        return spread_rows(executor, task)
    except TaskFailed:
        raise
    except JobError as error:
        return _died(task, f"did not finish ({error})")


def _metrics(topics: Sequence[LatestOutline], _: Sequence[LogChange]) -> dict[str, Scalar]:
    return {"rows_read": sum(log.rows_read for topic in topics for log in topic.logs or ())}


def _died(task: LatestTask, how: str) -> LatestResult:
    """The result of a task whose workers died."""
    return LatestResult(
        error=f"the worker of partition {task.span.partition} {how}. Where memory is short, use --keys-in-memory with "
        "a smaller number"
    )


def _commit(
    config: LatestConfig,
    plan: LatestTopicPlan,
    results: Sequence[LatestResult],
    described: LatestOutline,
    there: list[Table],
) -> tuple[LatestOutline, list[LogChange]]:
    """Commit a topic at once, or nothing of it; return what to report about it, and what changed, by log.

    Raises:
        JobError: A log could not be read or written.
    """
    problem = next((each.error for each in results if each.error is not None), None)
    if problem is not None:
        raise JobError(problem)
    table = topic_table(config.lake, LATEST, plan.topic)
    guards = guards_of(plan, table)
    if plan.replaced is not None:
        guards.append(Guard(table.application_id(REPLACED), *plan.replaced))
    changes: list[LogChange] = []
    logs: list[LatestCounts] = []
    for span, result in zip(plan.spans, results, strict=True):
        counts = result.counts
        assert counts is not None
        rows = counts.rows + (0 if plan.replaces else plan.rows[span.log] or 0)
        guards.append(Guard(table.application_id(span.log), span.frontiers[LATEST], span.end))
        guards.append(Guard(table.application_id(ROWS + span.log), plan.rows[span.log], rows))
        of_log = LatestCounts(
            span.start,
            span.end,
            counts.rows,
            counts.without_key,
            counts.tombstones,
            result.rows_written,
            result.rows_moved,
        )
        logs.append(of_log)
        changes.append(LogChange(span.log, plan.topic, span.partition, asdict(of_log)))
    table.commit(
        latest_spec(plan.topic, None if plan.values is None else plan.values.columns),
        [file for result in results for file in result.written],
        config.run_id,
        guards,
        whole=plan.replaces,
        removed=[file for result in results for file in result.removed],
    )
    there.append(table)
    return replace(described, left=0, logs=tuple(logs)), changes
