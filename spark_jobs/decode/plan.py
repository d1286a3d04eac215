"""The work of ``decode``: per topic and log the offsets between two frontiers, or why a topic waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from logcore.texts import shell_word
from logcore.values.form import ValueColumn, column_of
from spark_jobs.contracts import DecodeConfig
from spark_jobs.decode.deadly_rows import given_up_rows
from spark_jobs.decode.decode_task import DecodeTask, stop_at_start
from spark_jobs.decode.decoding import Format, TopicFormats, lacking_schema
from spark_jobs.decode.schema_sources import SchemaSources
from spark_jobs.decode.split_rows import SchemaStop
from spark_jobs.errors import JobError, UsageError
from spark_jobs.following.topic_plan import (
    FollowingPlan,
    LogSpan,
    TopicPlan,
    TopicTables,
    plan_topics,
)
from spark_jobs.lake.decoded.followed_topics import POLICY, REPLACED, SCHEMAS, SEEN, FollowedTopic
from spark_jobs.lake.decoded.records_history import RecordsHistory
from spark_jobs.lake.decoded.topic_tables import DECODED, UNDECODED, topic_table
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.delta.table import Table
from spark_jobs.lake.repair_commands import follow_command, topic_command
from spark_jobs.outlines import DecodedOutline
from spark_jobs.policies.topic_policies import TopicPolicy

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
