"""``latest``: the newest row of each key and log of ``records`` in ``latest/<topic>``, exactly once.

    plan     per topic with a policy and per log [frontier of the table, frontier of ``records``)          (driver)
    keys     those of the new rows, looked up in the keys of the log's files: which rows are outdated     (workers)
    write    files that lost rows are written again without them; the newest of the new rows become a file (workers)
    commit   files, frontiers, policy and number of rows at once, guarded by the frontiers of the plan      (driver)

A task is of one log; a large log has many. Files hold rows of one log in the order of offsets, so keys
that change often are in the newest files, and files of keys that rest stay as they are. Small files at the end of a log
are joined when they are written again.

Where the topic is decoded, the rows have the values of its decoded table, up to the frontier of that table. Rows of
``records`` that were added, replaced or removed below a frontier change which row is the newest of a key. A removed row
may even bring back one that the table no longer has. Then the whole topic is computed again from ``records``: if a
commit did that, if the commits are gone, if the number of rows below a frontier changed, or if the decoded table was
written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial

import pyarrow as pa

from logcore.columns.kernels.families import Work
from logcore.columns.kernels.library import is_chosen
from spark_jobs.contracts import JobReport, LatestConfig, LogChange, Scalar
from spark_jobs.engine.executor import Executor, TaskFailed, run_surviving
from spark_jobs.errors import JobError
from spark_jobs.following.commits import commit_topics, guards_of
from spark_jobs.following.topic_plan import FollowingPlan, TopicPlan, TopicTables, plan_topics
from spark_jobs.lake.decoded.balance import published_below
from spark_jobs.lake.decoded.followed_topics import POLICY, REPLACED, ROWS, SEEN, FollowedTopic, latest_digest
from spark_jobs.lake.decoded.records_history import RecordsHistory
from spark_jobs.lake.decoded.topic_tables import DECODED, LATEST, UNDECODED, latest_spec, topic_table
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.delta.table import Table
from spark_jobs.lake.delta.tables.table_features import is_supported
from spark_jobs.lake.repair_commands import follow_command, topic_command
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.latest.decoded_values import DecodedFiles
from spark_jobs.latest.latest_task import LatestResult, LatestTask, latest_rows, spread_rows
from spark_jobs.outlines import FollowingOutline, LatestCounts, LatestOutline
from spark_jobs.policies.topic_policies import TopicPolicy

__all__ = ["apply", "plan"]


def apply(
    plan: FollowingPlan[LatestTopicPlan], config: LatestConfig, executor: Executor | None
) -> JobReport[FollowingOutline[LatestOutline]]:
    """Bring each topic up to its frontiers; see :func:`~spark_jobs.following.commits.commit_topics`."""
    results = _results([task for topic in plan.due for task in topic.tasks], executor)
    commit = partial(_commit, config)
    return commit_topics(plan, config, results, lambda topic, _: topic.outline, commit, _metrics)


def _results(tasks: Sequence[LatestTask], executor: Executor | None) -> Iterator[LatestResult]:
    """The result of each task; large logs are done one by one, when theirs is needed."""
    # Only the kernels find newest offsets in many tasks.
    spread = {at for at, task in enumerate(tasks) if task.is_large and is_chosen(Work.CLEAN)}
    whole = [task for at, task in enumerate(tasks) if at not in spread]
    done = iter(run_surviving(executor, latest_rows, whole, [task.size for task in whole], _died))
    for at, task in enumerate(tasks):
        yield _spread(task, executor) if at in spread else next(done)


def _spread(task: LatestTask, executor: Executor | None) -> LatestResult:
    try:
        return spread_rows(executor, task)
    except TaskFailed:
        raise
    except JobError as error:
        return _died(task, f"did not finish ({error})")


def _metrics(topics: Sequence[LatestOutline]) -> dict[str, Scalar]:
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


@dataclass(frozen=True, slots=True)
class LatestTopicPlan(TopicPlan[LatestTask]):
    """The work on a topic whose policy has ``latest``: a task for each span."""

    KINDS = (LATEST,)

    rows: Mapping[str, int | None] = field(default_factory=dict)
    """Rows of ``records`` below the frontier, by log."""
    values: DecodedFiles | None = None
    """Where decoded keys and values are; None: the topic is not decoded."""
    replaced: tuple[int | None, int] | None = None
    """How many times the decoded table was written again: as this table records it, and now. None as for ``values``."""

    @property
    def outline(self) -> LatestOutline:
        """What a report and a dry run say of it."""
        return LatestOutline(*self.said)


def plan(config: LatestConfig) -> FollowingPlan[LatestTopicPlan]:
    """See :func:`~spark_jobs.following.topic_plan.plan_topics`."""

    def planner(history: RecordsHistory) -> Callable[[FollowedTopic], LatestTopicPlan]:
        return partial(_plan_topic, config, history)

    return plan_topics(config, LatestTopicPlan, lambda policy: policy.latest is not None, planner)


def _plan_topic(config: LatestConfig, history: RecordsHistory, followed: FollowedTopic) -> LatestTopicPlan:
    topic, policy = followed.name, followed.policy
    rows = [ROWS + log.log for log in followed.logs]
    tables = TopicTables.of(config.lake, followed, LatestTopicPlan.KINDS, [*rows, POLICY, SEEN, REPLACED])
    found, replaced, note = tables.main, None, None
    if policy.decodes:
        whole, (tables, times) = tables, _up_to_decoded(config.lake, topic, tables)
        replaced = found[REPLACED], times
        if tables.published != whole.published:
            way = follow_command(config.lake, "decode", topic)
            note = f"rows end where decoded/{topic} ends. To decode more: `{way}`"
    files = tuple(file for file in history.files if file.partition_values["topic"] == topic)
    assert policy.latest is not None
    digest = latest_digest(policy)
    replaces, waits = topic in config.replace, None
    if not replaces and tables.has_other_policy(digest):
        waits = (
            "its policy `latest` differs from the one that its rows were computed with. To compute them again: "
            f"`{topic_command(config.lake, 'latest', topic)}`"
        )
    elif not replaces:
        why = _changed(config.lake, topic, followed.logs, found, history, files) or next(
            iter(each for each in history.rewritten(topic, found[SEEN], tables.frontiers()) if each is not None), None
        )
        if why is None and replaced is not None and found[POLICY] is not None and replaced[0] != replaced[1]:
            why = f"decoded/{topic} was written again"
        if why is not None:
            replaces, note = True, "; ".join(filter(None, (f"{why}: all rows were computed again", note)))
    made = LatestTopicPlan(
        topic,
        tables.spans(replaces=replaces),
        digest=digest,
        recorded=tables.recorded(POLICY, SEEN),
        seen=history.version,
        replaces=replaces,
        waits=waits,
        note=note,
        rows={log.log: found[ROWS + log.log] for log in followed.logs},
        replaced=replaced,
    )
    if waits is not None or not made.spans:
        return made
    table = topic_table(config.lake, LATEST, topic)
    opened = None if replaces else table.open()
    if opened is not None and not is_supported(opened):
        raise JobError(
            "another program removed rows by deletion vectors, or gave the table another feature. To compute it again: "
            f"`{topic_command(config.lake, 'latest', topic)}`"
        )
    if replaced is not None:
        made = replace(made, values=_decoded_files(config.lake, topic))
    return replace(made, tasks=_tasks(config, made, policy, files, [] if replaces else table.files()))


def _up_to_decoded(lake: str, topic: str, tables: TopicTables) -> tuple[TopicTables, int]:
    """The tables as if only decoded offsets were published, and how many times the decoded table was written again."""
    keys = [log.log for log in tables.logs]
    decoded = topic_table(lake, DECODED, topic).versions([*keys, REPLACED])
    ends: dict[str, int | None] = {}
    for key in keys:
        published, end = tables.published[key], decoded[key]
        ends[key] = None if published is None or end is None else min(published, end)
    return replace(tables, published=ends), decoded[REPLACED] or 0


def _decoded_files(lake: str, topic: str) -> DecodedFiles:
    decoded, undecoded = topic_table(lake, DECODED, topic), topic_table(lake, UNDECODED, topic)
    columns = decoded.columns()
    pair = pa.schema([columns.field("key"), columns.field("value")])
    return DecodedFiles(pair, tuple(decoded.files()), tuple(undecoded.files()))


def _tasks(
    config: LatestConfig,
    plan: LatestTopicPlan,
    policy: TopicPolicy,
    published: Sequence[LiveFile],
    held: Sequence[LiveFile],
) -> tuple[LatestTask, ...]:
    """A task for each log.

    Args:
        published: Files of ``records`` of the topic.
        held: Files of the table.

    Raises:
        JobError: A file of the table may have rows of several logs.
    """
    if any(file.log_id is None or file.partition is None or file.rows < 0 for file in held):
        raise JobError(
            "another engine merged files of several logs. To compute the table again: "
            f"`{topic_command(config.lake, 'latest', plan.topic)}`"
        )
    made = []
    for span in plan.spans:
        of_log = [file for file in held if (file.log_id, file.partition) == (span.log_id, span.partition)]
        made.append(
            LatestTask(
                config.lake,
                span,
                tuple(file for file in published if span.may_be_in(file)),
                tuple(sorted(of_log, key=lambda file: (file.min_offset or 0, file.path))),
                policy.latest == "soft-delete",
                policy.compression,
                config.keys_in_memory,
                policy.compaction_spread_bytes,
                None if plan.values is None else plan.values.of(span),
            )
        )
    return tuple(made)


def _changed(
    lake: str,
    topic: str,
    logs: Sequence[LogRow],
    found: Mapping[str, int | None],
    history: RecordsHistory,
    files: Sequence[LiveFile],
) -> str | None:
    """Why rows below a frontier are not those that the table was made of, as far as numbers show it."""
    seen = found[SEEN]
    if seen is not None and seen > history.version:
        return "records is at an earlier version"
    for log in logs:
        end, rows = found[log.log], found[ROWS + log.log]
        if end is not None and rows != published_below(lake, files, log, end):
            return f"the rows of records below offset {end} of {topic}-{log.partition} changed"
    return None
