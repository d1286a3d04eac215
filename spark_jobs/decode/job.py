"""``decode``: keys and values of ``records`` become typed columns of ``decoded/<topic>``, exactly once.

    plan     per topic with a policy and per log [frontier of the decoded table, frontier of ``records``)   (driver)
    write    each batch is split into decoded rows and rows that could not be decoded                       (workers)
    commit   first ``undecoded/<topic>`` with its own frontiers, then ``decoded/<topic>`` with its frontiers  (driver)

After a kill between the two commits the frontiers differ. The next run decodes from the frontier of the decoded table,
and adds to the other table only rows from its own frontier on. Decoding is deterministic, so no row is lost or doubled.

Both tables record a digest of the policy. With another digest a topic waits until its replacement is requested: earlier
rows stay. It also waits if rows below its frontier were written again in ``records``.

A worker that dies is tried once more, with every row decoded the plain way. If that worker dies too, the row that it
dies of is found, and is a row that could not be decoded (``deadly_rows``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.contracts import DecodeConfig, JobReport, LogChange, Scalar
from spark_jobs.decode.deadly_rows import surviving_results
from spark_jobs.decode.decode_task import DecodeResult, DecodeTask, decode_rows
from spark_jobs.decode.decoding import decoding_of
from spark_jobs.decode.plan import DecodedTopicPlan, plan, policy_way
from spark_jobs.decode.split_rows import SchemaStop
from spark_jobs.errors import JobError
from spark_jobs.following.commits import commit_topics, guards_of
from spark_jobs.following.topic_plan import FollowingPlan, LogSpan
from spark_jobs.lake.decoded.followed_topics import REPLACED, SCHEMAS
from spark_jobs.lake.decoded.topic_tables import DECODED, UNDECODED, decoded_spec, topic_table, undecoded_spec
from spark_jobs.lake.delta.commits.commit_guards import Guard
from spark_jobs.lake.delta.table import Table
from spark_jobs.lake.repair_commands import topic_command
from spark_jobs.lake.store.written_file import WrittenFile
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.outlines import DecodedOutline, FollowingOutline

if TYPE_CHECKING:
    from spark_jobs.outlines import DecodedOutline, FollowingOutline
from spark_jobs.tasks.executor import Executor

__all__ = ["apply", "plan"]

_MOST_NAMED = 3
"""Tasks whose offsets a report names."""


def apply(
    plan: FollowingPlan[DecodedTopicPlan], config: DecodeConfig, executor: Executor | None
) -> JobReport[FollowingOutline[DecodedOutline]]:
    """Decode; see :func:`~spark_jobs.following.commits.commit_topics`."""
    tasks = [task for topic in plan.due for task in topic.tasks]
    if executor is None:
        tasks = [task.second_try() for task in tasks]
    results = iter(surviving_results(executor, decode_rows, tasks))

    def describe(topic: DecodedTopicPlan, results: Sequence[DecodeResult]) -> DecodedOutline:
        if not topic.is_due:
            return topic.outline
        again = [task for task, result in zip(topic.tasks, results, strict=True) if result.was_plain]
        return replace(topic.outline, retried=_retried(again) if executor is not None else None)

    commit = partial(_commit_topic, config)
    return commit_topics(plan, config, results, describe, commit, _metrics, used_executor=executor is not None)


def _metrics(topics: Sequence[DecodedOutline], _: Sequence[LogChange]) -> dict[str, Scalar]:
    return {
        "decoded": sum(topic.decoded or 0 for topic in topics),
        "undecoded": sum(sum((topic.undecoded or {}).values()) for topic in topics),
    }


@dataclass(slots=True)
class _MadeOfLog:
    """What the tasks of a log wrote."""

    span: LogSpan
    files: dict[str, list[WrittenFile]] = field(default_factory=lambda: {DECODED: [], UNDECODED: []})
    rows: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    problem: str | None = None

    def add(self, result: DecodeResult) -> None:
        self.problem = self.problem or result.error
        self.files[DECODED] += result.decoded
        self.files[UNDECODED] += result.undecoded
        self.rows += result.rows
        for reason, rows in (result.reasons or {}).items():
            self.reasons[reason] = self.reasons.get(reason, 0) + rows


@dataclass(slots=True)
class _Made:
    """What the tasks of a topic wrote, without logs that have a problem."""

    plan: DecodedTopicPlan
    logs: list[_MadeOfLog]
    problems: list[str]
    stopped: list[str]
    """Logs that end before a row whose schema cannot be aligned with the table."""

    @classmethod
    def of(cls, config: DecodeConfig, plan: DecodedTopicPlan, results: Sequence[DecodeResult]) -> _Made:
        logs = {span.log: _MadeOfLog(span) for span in plan.spans}
        stops = {**_first_stops(plan.tasks, results), **plan.stops}
        for task, result in zip(plan.tasks, results, strict=True):
            stop = stops.get(task.span.log)
            if stop is None or task.offsets[0] < stop.offset:
                logs[task.span.log].add(result)
            if stop is None:
                continue
            ends_later = result.stop is None or result.stop.offset > stop.offset
            is_crossed = task.offsets[0] < stop.offset < task.offsets[1] and ends_later
            if is_crossed or (result.stop is not None and task.has_overlaps):
                logs[task.span.log].problem = f"files overlap at offset {stop.offset}, where {stop.why}"
        for log, stop in stops.items():
            logs[log].span = replace(logs[log].span, end=stop.offset)
        problems = [
            f"partition {each.span.partition} waits: {each.problem}"
            for each in logs.values()
            if each.problem is not None
        ]
        way_of_wider = (
            f"To write the wider column and all rows again: `{topic_command(config.lake, 'decode', plan.topic)}`"
        )
        way_of_others = f"To keep such rows undecoded: {policy_way(config, plan.topic, 'on_schema_change=undecoded')}"
        stopped = [
            f"partition {logs[log].span.partition} waits at offset {stop.offset}: {stop.why}. "
            + (way_of_wider if stop.is_wider else way_of_others)
            for log, stop in stops.items()
            if logs[log].problem is None
        ]
        left = [each for each in logs.values() if each.problem is None]
        return cls(plan, left, problems, stopped)

    def files(self, kind: str) -> list[WrittenFile]:
        return [file for log in self.logs for file in log.files[kind]]

    @property
    def reasons(self) -> dict[str, int]:
        added: dict[str, int] = {}
        for log in self.logs:
            for reason, rows in log.reasons.items():
                added[reason] = added.get(reason, 0) + rows
        return added

    def changes(self) -> list[LogChange]:
        """What changed, by log."""
        return [
            LogChange(
                log.span.log,
                self.plan.topic,
                log.span.partition,
                {
                    "decoded": log.rows,
                    "undecoded": sum(log.reasons.values()),
                    "start_offset": log.span.start,
                    "end_offset": log.span.end,
                },
            )
            for log in self.logs
            if self.plan.replaces or log.span.end > log.span.start
        ]


def _retried(tasks: Sequence[DecodeTask]) -> str | None:
    """What to report about tasks whose workers died; None: there are none."""
    if not tasks:
        return None
    named = [
        f"partition {task.span.partition} offsets [{start}, {end})"
        for task, (start, end) in ((task, task.offsets) for task in tasks[:_MOST_NAMED])
    ]
    more = f" and {len(tasks) - _MOST_NAMED} more tasks" if len(tasks) > _MOST_NAMED else ""
    return f"decoded row by row after a worker died: {', '.join(named)}{more}"


def _first_stops(tasks: Sequence[DecodeTask], results: Sequence[DecodeResult]) -> dict[str, SchemaStop]:
    """The first stop of each log that has one."""
    found: dict[str, SchemaStop] = {}
    for task, result in zip(tasks, results, strict=True):
        stop = result.stop
        if stop is not None and (task.span.log not in found or stop.offset < found[task.span.log].offset):
            found[task.span.log] = stop
    return found


def _commit_topic(
    config: DecodeConfig,
    plan: DecodedTopicPlan,
    results: Sequence[DecodeResult],
    described: DecodedOutline,
    there: list[Table],
) -> tuple[DecodedOutline, list[LogChange]]:
    """Commit the logs of a topic that have no problem; return what to report about it, and what changed.

    Args:
        there: Gets the tables that were committed to: now they exist.
    """
    assert plan.formats is not None
    made = _Made.of(config, plan, results)
    waits = "; ".join([*made.problems, *made.stopped]) or None
    if plan.replaces and waits is not None:  # a replacement is whole or not at all
        raise JobError(f"nothing was replaced: {waits}")
    decoding = decoding_of(plan.formats)
    specs = {
        UNDECODED: undecoded_spec(plan.topic),
        DECODED: decoded_spec(plan.topic, decoding.key_field, decoding.value_field),
    }
    whole = replace(plan, spans=tuple(log.span for log in made.logs))
    for kind, spec in specs.items():
        table = topic_table(config.lake, kind, plan.topic)
        if _commit(config, whole, table, spec, made.files(kind)):
            there.append(table)
    decoded, left = sum(log.rows for log in made.logs), plan.left - whole.left
    return replace(described, decoded=decoded, undecoded=made.reasons, left=left, waits=waits), made.changes()


def _commit(
    config: DecodeConfig, plan: DecodedTopicPlan, table: Table, spec: TableSpec, files: Sequence[WrittenFile]
) -> bool:
    """Commit rows, frontiers, policy and the version of ``records`` at once; nothing if the table has all of it.

    Returns:
        Whether there was something to commit.
    """
    assert plan.formats is not None
    guards = guards_of(plan, table)
    schemas = plan.formats.registry_digest
    if schemas is not None:
        guards.append(Guard(table.application_id(SCHEMAS), plan.recorded[table.kind][SCHEMAS], schemas))
    if plan.replaces:
        times = plan.recorded[table.kind][REPLACED]
        guards.append(Guard(table.application_id(REPLACED), times, (times or 0) + 1))
    usual = len(guards)
    for span in plan.spans:
        planned = span.frontiers[table.kind]
        if plan.replaces or span.end > (planned or 0):
            guards.append(Guard(table.application_id(span.log), planned, span.end))
    has_news = len(guards) > usual or bool(files) or plan.replaces
    is_due = has_news or (plan.has_unseen and (table.kind == DECODED or schemas is not None))
    if is_due:  # else a run was killed between the two commits
        table.commit(spec, files, config.run_id, guards, whole=plan.replaces)
    return is_due
