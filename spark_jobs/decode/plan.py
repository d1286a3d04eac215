"""The work of ``decode``: per topic and log the offsets between two frontiers, or why a topic waits."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from spark_jobs.contracts import DecodeConfig
from spark_jobs.decode.deadly_rows import given_up_rows
from spark_jobs.decode.decode_task import DecodeTask, stop_at_start
from spark_jobs.decode.decoding import Format, TopicFormats
from spark_jobs.decode.schema_sources import SchemaSources
from spark_jobs.decode.split_rows import SchemaStop
from spark_jobs.lake.decoded.followed_topics import (
    POLICY,
    SCHEMAS,
    SEEN,
    FollowedTopic,
    followed_topics,
    has_unseen,
)
from spark_jobs.lake.decoded.records_history import RecordsHistory
from spark_jobs.lake.decoded.topic_tables import DECODED, UNDECODED, TopicTable
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.errors import JobError, UsageError
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.repair_commands import topic_command
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.lake.setup.policies.topic_policies import TopicPolicy

_UNFORESEEN = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors of code that meets a value it does not expect. Others, such as those of a disk, end the job."""
IN_PROCESS_BYTES = 1 << 20
"""Up to so many bytes of ``records`` the driver decodes by itself, and the plain way: it needs no worker, and native
code on foreign bytes could end the driver."""

TASK_BYTES = 32 << 20
"""Bytes of files of ``records`` that one task reads."""

TASK_ROWS = 262_144
"""Rows that one task reads: four row groups."""

_MOST_SAID = 5
"""Differences of columns that one line names."""

FEW_OFFSETS = 1024
"""A log with more offsets to decode may have ended at a row whose schema can't be aligned: that row is looked at first,
so a log that waits costs one row in each run. Fewer rows are decoded as fast as that row is found."""

FOLLOW_BYTES = 1 << 30
"""A topic whose rows in ``records`` were replaced is decoded again by itself if its files are not larger together."""


@dataclass(frozen=True, slots=True)
class LogSpan:
    """What is to be decoded of a log."""

    log: str
    partition: int
    log_id: str
    decoded: int | None
    """Frontier of the decoded table."""
    undecoded: int | None
    """Frontier of the other table; not below the first one, unless rows are replaced."""
    end: int


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """The work on a topic, or why it waits."""

    topic: str
    spans: tuple[LogSpan, ...] = ()
    tasks: tuple[DecodeTask, ...] = ()
    """Without those of logs in ``stops``."""
    stops: Mapping[str, SchemaStop] = field(default_factory=dict)
    """Logs whose next row has a schema that cannot be aligned with the table."""
    formats: TopicFormats | None = None
    recorded: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    """By kind of table: what it records, by :data:`POLICY`, :data:`SEEN` and :data:`SCHEMAS`."""
    seen: int = 0
    """Version of ``records`` that the plan was made on."""
    replaces: bool = False
    waits: str | None = None
    note: str | None = None
    """What could not be checked."""

    @property
    def left(self) -> int:
        """Offsets that are published and not decoded."""
        return sum(span.end - (0 if self.replaces else span.decoded or 0) for span in self.spans)

    @property
    def is_due(self) -> bool:
        """Whether there is something to commit."""
        return self.waits is None and (bool(self.spans) or self.has_unseen)

    @property
    def has_unseen(self) -> bool:
        """Whether the next plan would have to read many commits of ``records`` again."""
        return has_unseen(self.seen, self.recorded.get(DECODED, {}).get(SEEN))

    def as_dict(self) -> dict[str, object]:
        """The plan as plain values."""
        return {
            "topic": self.topic,
            "left": self.left,
            "replaces": self.replaces,
            "waits": self.waits,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class DecodePlan:
    """The work on all topics whose policy decodes keys or values."""

    topics: tuple[TopicPlan, ...]

    @property
    def is_empty(self) -> bool:
        """Whether no topic has rows to decode."""
        return not any(topic.is_due for topic in self.topics)

    @property
    def due(self) -> tuple[TopicPlan, ...]:
        """The topics with work."""
        return tuple(topic for topic in self.topics if topic.is_due)

    @property
    def needs_executor(self) -> bool:
        """Whether there is more to decode than the driver decodes by itself."""
        return sum(task.size for topic in self.due for task in topic.tasks) > IN_PROCESS_BYTES

    def as_dict(self) -> dict[str, object]:
        """The plan as plain values."""
        return {"topics": [topic.as_dict() for topic in self.topics]}


def plan(config: DecodeConfig) -> DecodePlan:
    """Plan, for each topic with a policy, the rows between the frontiers.

    Raises:
        UsageError: A topic is to be replaced that no policy decodes.
        TableUnreadable: ``records`` or a table of state is damaged.
    """
    policies = config.policies
    if not any(policy.decodes for policy in policies.topics) and not config.replace:
        return DecodePlan(())  # the usual case: nothing else is opened
    history = RecordsHistory.of(config.lake)
    sources = SchemaSources(config.lake, history)
    plans = []
    for topic in followed_topics(config.lake, policies, lambda policy: policy.decodes, config.topics, config.replace):
        try:
            plans.append(_plan_topic(config, topic, history, sources))
        except (JobError, UsageError) as error:  # of this topic only
            plans.append(_waiting(config, topic, str(error)))
        except _UNFORESEEN as error:  # a schema that nobody thought of holds up its own topic only
            waits = (
                f"its schema cannot be used ({type(error).__name__}). This is a mistake in Loglake; please report it."
            )
            plans.append(_waiting(config, topic, waits))
    return DecodePlan(tuple(plans))


def policy_way(config: DecodeConfig, topic: str, choice: str) -> str:
    """Return how a topic gets another policy for schemas that change, as the end of a sentence."""
    return (
        f"set `on_schema_change: {choice}` for {topic} in {config.policies.path}, then: "
        f"loglake decode {shlex.quote(config.lake)} --topic {topic}"
    )


def _waiting(config: DecodeConfig, followed: FollowedTopic, why: str) -> TopicPlan:
    """A topic that cannot be planned, with the offsets that it has left as far as its tables can be read."""
    keys = [log.log for log in followed.logs]
    try:
        published = frontier.read_frontiers(config.lake, keys)
        found = {kind: TopicTable(config.lake, kind, followed.name).versions(keys) for kind in (DECODED, UNDECODED)}
    except JobError:
        return TopicPlan(followed.name, waits=why)
    return TopicPlan(followed.name, _spans(followed.logs, found, published, replaces=False), waits=why)


def _plan_topic(
    config: DecodeConfig, followed: FollowedTopic, history: RecordsHistory, sources: SchemaSources
) -> TopicPlan:
    topic, logs, policy = followed.name, followed.logs, followed.policy
    formats = TopicFormats.of(policy, topic)
    keys = [log.log for log in logs]
    published = frontier.read_frontiers(config.lake, keys)
    extra = (POLICY, SEEN, SCHEMAS)
    found = {kind: TopicTable(config.lake, kind, topic).versions([*keys, *extra]) for kind in (DECODED, UNDECODED)}
    recorded = {kind: {what: each[what] for what in extra} for kind, each in found.items()}
    replaces, waits, note = topic in config.replace, None, None
    again = f". To decode all rows again: {topic_command(config.lake, 'decode', topic)}"
    if not replaces and {each[POLICY] for each in recorded.values()} - {None, formats.digest}:
        waits = f"its policy or a schema differs from the one that its rows were decoded with{again}"
    elif not replaces:
        frontiers = {(log.log_id, log.partition): found[DECODED][log.log] or 0 for log in logs}
        rewritten, note = history.rewritten(topic, recorded[DECODED][SEEN], frontiers)
        if rewritten is not None and history.bytes_of(topic) <= FOLLOW_BYTES:
            replaces, note = True, f"{rewritten}: all rows are decoded again"
        elif rewritten is not None:
            waits = rewritten + again
    spans = _spans(logs, found, published, replaces=replaces)
    made = TopicPlan(
        topic,
        spans,
        formats=formats,
        recorded=recorded,
        seen=history.version,
        replaces=replaces,
        waits=waits,
        note=note,
    )
    if waits is None and not replaces and made.is_due:
        differences = _differences(config.lake, topic, formats)
        if differences:
            return replace(made, waits=f"its table has other columns than this version decodes: {differences}{again}")
    if formats.names_schemas and waits is None and (made.is_due or _is_half(recorded)):
        made = _with_schemas(config, made, policy, history, sources)
    if made.replaces and not replaces:
        made = replace(made, spans=_spans(logs, found, published, replaces=True))
    if made.waits is not None:
        return made
    return _with_tasks(config.lake, made, policy, history.files)


def _differences(lake: str, topic: str, formats: TopicFormats) -> str:
    table = TopicTable(lake, DECODED, topic)
    found = [
        each
        for part, format in (("key", formats.key), ("value", formats.value))
        if format.schema is not None
        for each in format.differences(part, table.column(part))
    ]
    return ", ".join(found[:_MOST_SAID]) + (f", and {len(found) - _MOST_SAID} more" if len(found) > _MOST_SAID else "")


def _spans(
    logs: Sequence[LogRow],
    found: Mapping[str, Mapping[str, int | None]],
    published: Mapping[str, int | None],
    *,
    replaces: bool,
) -> tuple[LogSpan, ...]:
    return tuple(
        LogSpan(log.log, log.partition, log.log_id, found[DECODED][log.log], found[UNDECODED][log.log], end)
        for log in sorted(logs, key=lambda each: (each.partition, each.log_id))
        if (end := published[log.log]) is not None and (replaces or end > (found[DECODED][log.log] or 0))
    )


def _with_schemas(
    config: DecodeConfig, plan: TopicPlan, policy: TopicPolicy, history: RecordsHistory, sources: SchemaSources
) -> TopicPlan:
    """The plan with the schemas that rows may name, or why they forbid it."""
    assert plan.formats is not None
    assert policy.decode_schemas is not None
    parts: dict[str, Format] = {}
    notes = [plan.note] if plan.note is not None else []
    table = TopicTable(config.lake, DECODED, plan.topic)
    for part in ("key", "value"):
        format: Format = getattr(plan.formats, part)
        if format.naming is not None:
            schemas, strange = sources.schemas(
                policy.decode_schemas, format.naming.subjects, policy.decode_schemas_credentials
            )
            format = format.resolved(schemas, part, None if plan.replaces else table.column(part))
            notes += [strange] if strange is not None and strange not in notes else []
        parts[part] = format
    formats = TopicFormats(**parts)
    plan = replace(plan, formats=formats, note="; ".join(notes) or None)
    for writers in formats.writers:
        if writers.kind is None:
            return replace(plan, waits=writers.problem)
        if writers.added and policy.on_schema_change == "wait":
            added = ", ".join(writers.added)
            way = policy_way(config, plan.topic, "add")
            return replace(plan, waits=f"its schemas have new fields: {added}. To add them, {way}")
    used, before = (plan.recorded[kind][SCHEMAS] for kind in (UNDECODED, DECODED))
    if not plan.replaces and _is_half(plan.recorded) and (before is not None or used != formats.registry_digest):
        why = "its schemas changed after a run ended between two commits"
        if history.bytes_of(plan.topic) > FOLLOW_BYTES:
            way = topic_command(config.lake, "decode", plan.topic)
            return replace(plan, waits=f"{why}. To decode all rows again: {way}")
        return _with_schemas(
            config, replace(plan, replaces=True, note=f"{why}: all rows are decoded again"), policy, history, sources
        )
    return plan


def _is_half(recorded: Mapping[str, Mapping[str, int | None]]) -> bool:
    """Whether a run ended between the commits of both tables, after the schemas had changed."""
    return recorded[UNDECODED][SCHEMAS] not in (None, recorded[DECODED][SCHEMAS])


def _with_tasks(lake: str, plan: TopicPlan, policy: TopicPolicy, files: Sequence[LiveFile]) -> TopicPlan:
    """The plan with tasks log by log, in the order of offsets, and with the logs that still wait."""
    assert plan.formats is not None
    made: list[DecodeTask] = []
    stops: dict[str, SchemaStop] = {}
    for span in plan.spans:
        start = 0 if plan.replaces else span.decoded or 0
        whole = DecodeTask(
            lake=lake,
            topic=plan.topic,
            log=span.log,
            log_id=span.log_id,
            partition=span.partition,
            start=start,
            end=span.end,
            undecoded_from=start if plan.replaces else max(start, span.undecoded or 0),
            formats=plan.formats,
            compression=policy.compression,
            files=(),
            stops=plan.formats.names_schemas and policy.on_schema_change != "undecoded",
            given_up=_given_up(lake, plan, span),
        )
        tasks = whole.over(files, TASK_BYTES, TASK_ROWS)
        if tasks and whole.stops and not plan.replaces and span.end - start > FEW_OFFSETS:
            stop = stop_at_start(replace(whole, files=tasks[0].files), IN_PROCESS_BYTES)
            if stop is not None:
                stops[span.log] = stop
                continue
        made += tasks
    return replace(plan, tasks=tuple(made), stops=stops)


def _given_up(lake: str, plan: TopicPlan, span: LogSpan) -> tuple[tuple[int, str], ...]:
    """Rows of a log that a run gave up before it was killed between its two commits: they stay given up."""
    start, end = span.decoded or 0, span.undecoded or 0
    if plan.replaces or end <= start:
        return ()
    return tuple(sorted(given_up_rows(lake, plan.topic, span.log_id, span.partition, start, end).items()))
