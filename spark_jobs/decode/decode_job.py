"""``decode``: keys and values of ``records`` become typed columns of ``decoded/<topic>``, exactly once.

    plan     per topic with a policy and per log [frontier of the decoded table, frontier of ``records``)   (driver)
    write    each batch is split into decoded rows and rows that could not be decoded                       (workers)
    commit   first ``undecoded/<topic>`` with its own frontiers, then ``decoded/<topic>`` with its frontiers  (driver)

After a kill between the two commits the frontiers differ. The next run decodes from the frontier of the decoded table,
and adds to the other table only rows from its own frontier on. Decoding is deterministic, so no row is lost or doubled.

Both tables record a digest of the policy. With another digest a topic waits until its replacement is requested: earlier
rows stay. It also waits if rows below its frontier were written again in ``records``.

A worker that dies is tried once more, with every row decoded the plain way. If that worker dies too, the row that it
dies of is found, and is a row that could not be decoded.

Rows that end the process that decodes them are found and given up; all other rows are decoded.

A decoder of foreign bytes can be native code, and can end its process. A task whose workers died on both tries is run
again as two halves of its offsets, a half that dies as its own halves, until one row is left. Of that row first the
value is given up, then the key. A worker must survive that: otherwise it is not the decoder that ends workers, and the
log waits.

The tries are bounded. A task of n offsets is halved log2(n) times, and at most ``MOST_AT_ONCE`` tasks at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice

import pyarrow as pa
import pyarrow.compute as pc

from logcore.texts import shell_word
from logcore.values.form import ValueColumn, column_of
from logcore.values.undecodable import Reason
from spark_jobs.contracts import DecodeConfig, JobReport, LogChange, Scalar
from spark_jobs.decode.decode_task import DecodeResult, DecodeTask, decode_rows, stop_at_start
from spark_jobs.decode.decoding import Format, TopicFormats, decoding_of, lacking_schema
from spark_jobs.decode.schema_sources import SchemaSources
from spark_jobs.decode.split_rows import SchemaStop
from spark_jobs.engine.executor import Executor, run_surviving
from spark_jobs.errors import JobError, UsageError
from spark_jobs.following.commits import commit_topics, guards_of
from spark_jobs.following.topic_plan import (
    FollowingPlan,
    LogSpan,
    TopicPlan,
    TopicTables,
    plan_topics,
)
from spark_jobs.lake.decoded.followed_topics import POLICY, REPLACED, SCHEMAS, SEEN, FollowedTopic
from spark_jobs.lake.decoded.records_history import RecordsHistory
from spark_jobs.lake.decoded.topic_tables import DECODED, UNDECODED, decoded_spec, topic_table, undecoded_spec
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.files.file_contents import within
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.delta.table import Table
from spark_jobs.lake.repair_commands import follow_command, topic_command
from spark_jobs.lake.store.written_file import WrittenFile
from spark_jobs.lake.table_spec import TableSpec
from spark_jobs.outlines import DecodedOutline, FollowingOutline
from spark_jobs.policies.topic_policies import TopicPolicy

MOST_AT_ONCE = 16
"""Tasks that are halved at a time. A run with more of them does not have some deadly rows: something else is wrong."""

_MOST_ROUNDS = 63 + 2
"""Offsets have 63 bits; then the value is given up, then the key."""


@dataclass(frozen=True, slots=True)
class _Tried:
    """A task and what came of it."""

    task: DecodeTask
    result: DecodeResult

    @property
    def following(self) -> list[DecodeTask]:
        """What to try instead."""
        return self.task.after_deaths() if self.result.died is not None else []


def surviving_results(
    executor: Executor | None, work: Callable[[DecodeTask], DecodeResult], tasks: Sequence[DecodeTask]
) -> list[DecodeResult]:
    """Run tasks and return their results, also of those whose workers die.

    Args:
        executor: None: this process.
        work: ``decode_rows``.
    """
    parts = [[each] for each in _tried(executor, work, tasks)]
    left = _within_bounds(parts, range(len(parts)))
    rounds = 0
    while left and rounds < _MOST_ROUNDS:
        rounds += 1
        results = iter(_tried(executor, work, [task for at in left for each in parts[at] for task in each.following]))
        for at in left:
            parts[at] = list(
                chain.from_iterable(list(islice(results, len(each.following))) or [each] for each in parts[at])
            )
        left = _within_bounds(parts, left)
    return [_together(each) for each in parts]


def given_up_rows(lake: str, topic: str, log_id: str, partition: int, start: int, end: int) -> dict[int, str]:
    """Return the rows of a log that ``undecoded/<topic>`` has because a worker died of them.

    Args:
        start: The first offset.
        end: The offset after the last one.

    Returns:
        ``key`` or ``value`` by offset.

    Raises:
        TableUnreadable: The table is damaged.
    """
    table = topic_table(lake, UNDECODED, topic)
    found: dict[int, str] = {}
    for file in table.files():
        if not file.may_have(log_id, partition, start, end):
            continue
        for batch in table.batches(file, ["log_id", "partition", "offset", "reason", "part"]):
            rows = within(batch, (log_id, partition), start, end)
            given_up = pc.equal(rows["reason"].cast(pa.string()), pa.scalar(Reason.DECODER_DIED.value))
            found |= {row["offset"]: row["part"] for row in rows.filter(given_up).to_pylist()}
    return found


def _tried(
    executor: Executor | None, work: Callable[[DecodeTask], DecodeResult], tasks: Sequence[DecodeTask]
) -> list[_Tried]:
    results = run_surviving(
        executor, work, tasks, [task.size for task in tasks], lambda _, how: DecodeResult(was_plain=True, died=how)
    )
    return [_Tried(task, result) for task, result in zip(tasks, results, strict=True)]


def _within_bounds(parts: Sequence[Sequence[_Tried]], positions: Sequence[int]) -> list[int]:
    """The tasks that go on, in their order; one that is left out is not looked at again in this run."""
    left, chosen = MOST_AT_ONCE, []
    for at in positions:
        dying = sum(bool(each.following) for each in parts[at])
        if 0 < dying <= left:
            left -= dying
            chosen.append(at)
    return chosen


def _together(parts: Sequence[_Tried]) -> DecodeResult:
    """One result of parts in the order of offsets, up to the first stop."""
    stopped = next((at for at, each in enumerate(parts) if each.result.stop is not None), len(parts))
    parts = parts[: stopped + 1]
    for each in parts:
        if each.result.died is not None:
            return DecodeResult(error=_why(each.task, each.result.died))
        if each.result.error is not None:
            return each.result
    if len(parts) == 1:
        return parts[0].result
    reasons: dict[str, int] = {}
    for each in parts:
        for reason, rows in (each.result.reasons or {}).items():
            reasons[reason] = reasons.get(reason, 0) + rows
    return DecodeResult(
        tuple(file for each in parts for file in each.result.decoded),
        tuple(file for each in parts for file in each.result.undecoded),
        reasons,
        sum(each.result.rows for each in parts),
        stop=parts[-1].result.stop,
        was_plain=True,
    )


def _why(task: DecodeTask, how: str) -> str:
    """Why a log waits: what was tried before its workers died for good."""
    files = ", ".join(file.path for file in task.files[:3])
    start, end = task.offsets
    memory = "Where memory is short, run with fewer processes (LOGLAKE_PROCESSES)"
    if end - start > 1:
        return (
            f"the worker that decoded {files} {how}, also when it decoded row by row, and so did others: more than "
            f"{MOST_AT_ONCE} at a time are not tried again. {memory}"
        )
    if start < task.undecoded_from and start not in dict(task.given_up):
        return (
            f"the worker that decoded offset {start} {how}. An earlier run decoded it, and was killed before its last "
            f"commit. Run again, or decode all rows again: `{topic_command(task.lake, 'decode', task.span.topic)}`"
        )
    return f"the worker that read offset {start} of {files} {how}, also when it did not decode the row. {memory}"


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
    return commit_topics(plan, config, results, describe, commit, _metrics)


def _metrics(topics: Sequence[DecodedOutline]) -> dict[str, Scalar]:
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


RECORDED = (POLICY, SEEN, SCHEMAS, REPLACED)
"""What both tables record beside frontiers, if there is something to record."""

_UNFORESEEN = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors of code that meets a value it does not expect. Others, such as those of a disk, end the job."""
START_BYTES = 1 << 20
"""A larger row at the start of a task is not looked at by the plan."""
TASK_BYTES = 32 << 20
"""Bytes of files of ``records`` that one task reads."""

TASK_ROWS = 262_144
"""Rows that one task reads: four row groups."""

"""Differences of columns that one line names."""

FEW_OFFSETS = 1024
"""A log with more offsets to decode may have ended at a row whose schema can't be aligned: that row is looked at first,
so a log that waits costs one row in each run. Fewer rows are decoded as fast as that row is found."""

FOLLOW_BYTES = 1 << 30
"""A topic whose rows in ``records`` were replaced is decoded again by itself if its files are not larger together."""


@dataclass(frozen=True, slots=True)
class DecodedTopicPlan(TopicPlan[DecodeTask]):
    """The work on a topic whose policy decodes keys or values. Logs in ``stops`` have no tasks."""

    KINDS = (UNDECODED, DECODED)

    stops: Mapping[str, SchemaStop] = field(default_factory=dict)
    """Logs whose next row has a schema that cannot be aligned with the table."""
    formats: TopicFormats | None = None

    @property
    def outline(self) -> DecodedOutline:
        """What a report and a dry run say of it."""
        return DecodedOutline(*self.said)


def plan(config: DecodeConfig) -> FollowingPlan[DecodedTopicPlan]:
    """See :func:`~spark_jobs.following.topic_plan.plan_topics`."""

    def planner(history: RecordsHistory) -> Callable[[FollowedTopic], DecodedTopicPlan]:
        return partial(_planned, config, history, SchemaSources(config.lake, history))

    return plan_topics(config, DecodedTopicPlan, lambda policy: policy.decodes, planner)


def _planned(
    config: DecodeConfig, history: RecordsHistory, sources: SchemaSources, topic: FollowedTopic
) -> DecodedTopicPlan:
    try:
        return _plan_topic(config, topic, history, sources)
    except UsageError as error:
        lacking = lacking_schema(topic.policy)
        if lacking is None:
            raise
        way = policy_way(config, topic.name, f"{lacking}=FILE")
        raise UsageError(f"{error} FILE is its path: {way}") from error
    except JobError:
        raise
    except _UNFORESEEN as error:  # a schema that nobody thought of holds up its own topic only
        raise JobError(
            f"its schema cannot be used ({type(error).__name__}). This is a mistake in Loglake; please report it."
        ) from error


def policy_way(config: DecodeConfig, topic: str, setting: str) -> str:
    """Return the command that sets something for a topic, such as ``on_schema_change=add``, and decodes it."""
    setter = f"loglake config set {shell_word(str(config.policies.path))} {shell_word(topic)} {setting}"
    return f"`{setter} && {follow_command(config.lake, config.JOB, topic)}`"


def _plan_topic(
    config: DecodeConfig, followed: FollowedTopic, history: RecordsHistory, sources: SchemaSources
) -> DecodedTopicPlan:
    topic, policy = followed.name, followed.policy
    formats = TopicFormats.of(policy, topic)
    tables = TopicTables.of(config.lake, followed, DecodedTopicPlan.KINDS, RECORDED)
    recorded = tables.recorded(*RECORDED)
    replaces, waits, note = topic in config.replace, None, None
    again = f". To decode all rows again: `{topic_command(config.lake, 'decode', topic)}`"
    if not replaces and tables.has_other_policy(formats.digest):
        waits = f"its policy or a schema differs from the one that its rows were decoded with{again}"
    elif not replaces:
        rewritten, note = history.rewritten(topic, recorded[DECODED][SEEN], tables.frontiers())
        if rewritten is not None and history.bytes_of(topic) <= FOLLOW_BYTES:
            replaces, note = True, f"{rewritten}: all rows are decoded again"
        elif rewritten is not None:
            waits = rewritten + again
    made = DecodedTopicPlan(
        topic,
        tables.spans(replaces=replaces),
        digest=formats.digest,
        formats=formats,
        recorded=recorded,
        seen=history.version,
        replaces=replaces,
        waits=waits,
        note=note,
    )
    if formats.names_schemas and waits is None and (made.is_due or _is_half(recorded)):
        made = _with_schemas(config, made, policy, history, sources)
    if made.replaces and not replaces:
        made = replace(made, spans=tables.spans(replaces=True))
    if made.waits is not None:
        return made
    return _with_tasks(config.lake, made, policy, history.files)


def _column(table: Table, name: str) -> ValueColumn | None:
    """Return a column; None if the table was never created."""
    columns = table.columns()
    with table.reading():
        return column_of(columns.field(name)) if columns.names else None


def _with_schemas(
    config: DecodeConfig, plan: DecodedTopicPlan, policy: TopicPolicy, history: RecordsHistory, sources: SchemaSources
) -> DecodedTopicPlan:
    """The plan with the schemas that rows may name, or why they forbid it."""
    assert plan.formats is not None
    assert policy.decode_schemas is not None
    parts: dict[str, Format] = {}
    notes = [plan.note] if plan.note is not None else []
    table = topic_table(config.lake, DECODED, plan.topic)
    for part in ("key", "value"):
        format: Format = getattr(plan.formats, part)
        if format.naming is not None:
            schemas, strange = sources.schemas(
                policy.decode_schemas, format.naming.subjects, policy.decode_schemas_credentials
            )
            format = format.resolved(schemas, part, None if plan.replaces else _column(table, part))
            notes += [strange] if strange is not None and strange not in notes else []
        parts[part] = format
    formats = TopicFormats(**parts)
    plan = replace(plan, formats=formats, note="; ".join(notes) or None)
    for writers in formats.writers:
        if writers.kind is None:
            return replace(plan, waits=writers.problem)
        if writers.added and policy.on_schema_change == "wait":
            added = ", ".join(writers.added)
            way = policy_way(config, plan.topic, "on_schema_change=add")
            return replace(plan, waits=f"its schemas have new fields: {added}. To add them: {way}")
    used, before = (plan.recorded[kind][SCHEMAS] for kind in (UNDECODED, DECODED))
    if not plan.replaces and _is_half(plan.recorded) and (before is not None or used != formats.registry_digest):
        why = "its schemas changed after a run ended between two commits"
        if history.bytes_of(plan.topic) > FOLLOW_BYTES:
            way = topic_command(config.lake, "decode", plan.topic)
            return replace(plan, waits=f"{why}. To decode all rows again: `{way}`")
        return _with_schemas(
            config, replace(plan, replaces=True, note=f"{why}: all rows are decoded again"), policy, history, sources
        )
    return plan


def _is_half(recorded: Mapping[str, Mapping[str, int | None]]) -> bool:
    """Whether a run ended between the commits of both tables, after the schemas had changed."""
    return recorded[UNDECODED][SCHEMAS] not in (None, recorded[DECODED][SCHEMAS])


def _with_tasks(lake: str, plan: DecodedTopicPlan, policy: TopicPolicy, files: Sequence[LiveFile]) -> DecodedTopicPlan:
    """The plan with tasks log by log, in the order of offsets, and with the logs that still wait."""
    assert plan.formats is not None
    made: list[DecodeTask] = []
    stops: dict[str, SchemaStop] = {}
    for span in plan.spans:
        whole = DecodeTask(
            lake=lake,
            span=span,
            undecoded_from=span.start if plan.replaces else max(span.start, span.frontiers[UNDECODED] or 0),
            formats=plan.formats,
            compression=policy.compression,
            files=(),
            stops=plan.formats.names_schemas and policy.on_schema_change != "undecoded",
            given_up=_given_up(lake, plan, span),
        )
        tasks = whole.over(files, TASK_BYTES, TASK_ROWS)
        if tasks and whole.stops and not plan.replaces and span.end - span.start > FEW_OFFSETS:
            stop = stop_at_start(replace(whole, files=tasks[0].files), START_BYTES)
            if stop is not None:
                stops[span.log] = stop
                continue
        made += tasks
    return replace(plan, tasks=tuple(made), stops=stops)


def _given_up(lake: str, plan: DecodedTopicPlan, span: LogSpan) -> tuple[tuple[int, str], ...]:
    """Rows of a log that a run gave up before it was killed between its two commits: they stay given up."""
    start, end = span.start, span.frontiers[UNDECODED] or 0
    if plan.replaces or end <= start:
        return ()
    return tuple(sorted(given_up_rows(lake, plan.topic, span.log_id, span.partition, start, end).items()))
