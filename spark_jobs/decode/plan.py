"""The work of ``decode``: per topic and log the offsets between two frontiers, or why a topic waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spark_jobs.contracts import DecodeConfig
from spark_jobs.decode.decode_task import DecodeTask
from spark_jobs.decode.decoding import TopicFormats
from spark_jobs.lake.decoded.followed_topics import POLICY, SEEN, followed_topics, has_unseen
from spark_jobs.lake.decoded.records_history import RecordsHistory
from spark_jobs.lake.decoded.topic_tables import DECODED, UNDECODED, TopicTable
from spark_jobs.lake.delta.live_files import LiveFile
from spark_jobs.lake.errors import JobError, UsageError
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.lake.setup.policies import TopicPolicy, read_policies

IN_PROCESS_BYTES = 1 << 20
"""Up to so many bytes of ``records`` the driver decodes by itself, and the plain way: it needs no worker, and native
code on foreign bytes could end the driver."""

TASK_BYTES = 32 << 20
"""Bytes of files of ``records`` that one task reads."""

TASK_ROWS = 262_144
"""Rows that one task reads: four row groups."""

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
    formats: TopicFormats | None = None
    recorded: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    """By kind of table: what it records, by :data:`POLICY` and :data:`SEEN`."""
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
    policies = read_policies(config.policies)
    if not any(policy.decodes for policy in policies.topics) and not config.replace:
        return DecodePlan(())  # the usual case: nothing else is opened
    history = RecordsHistory.of(config.lake)
    plans = []
    for topic in followed_topics(config.lake, policies, lambda policy: policy.decodes, config.topics, config.replace):
        try:
            plans.append(_plan_topic(config, topic.name, topic.logs, topic.policy, history))
        except (JobError, UsageError) as error:  # of this topic only
            plans.append(TopicPlan(topic.name, waits=str(error)))
    return DecodePlan(tuple(plans))


def _plan_topic(
    config: DecodeConfig, topic: str, logs: Sequence[LogRow], policy: TopicPolicy, history: RecordsHistory
) -> TopicPlan:
    formats = TopicFormats.of(policy)
    keys = [log.log for log in logs]
    published = frontier.read_frontiers(config.lake, keys)
    found = {
        kind: TopicTable(config.lake, kind, topic).versions([*keys, POLICY, SEEN]) for kind in (DECODED, UNDECODED)
    }
    recorded = {kind: {what: each[what] for what in (POLICY, SEEN)} for kind, each in found.items()}
    replaces, waits, note = topic in config.replace, None, None
    if not replaces and {each[POLICY] for each in recorded.values()} - {None, formats.digest}:
        waits = "its policy or a schema differs from the one that its rows were decoded with"
    elif not replaces:
        frontiers = {(log.log_id, log.partition): found[DECODED][log.log] or 0 for log in logs}
        rewritten, note = history.rewritten(topic, recorded[DECODED][SEEN], frontiers)
        if rewritten is not None and history.bytes_of(topic) <= FOLLOW_BYTES:
            replaces, note = True, f"{rewritten}: all rows are decoded again"
        else:
            waits = rewritten
    if waits is not None:
        waits += f". To decode all rows again: loglake decode {config.lake} --replace {topic}"
    spans = tuple(
        LogSpan(log.log, log.partition, log.log_id, found[DECODED][log.log], found[UNDECODED][log.log], end)
        for log in sorted(logs, key=lambda each: (each.partition, each.log_id))
        if (end := published[log.log]) is not None and (replaces or end > (found[DECODED][log.log] or 0))
    )
    tasks = () if waits else _tasks(config.lake, topic, spans, formats, policy, history.files, replaces)
    return TopicPlan(topic, spans, tasks, formats, recorded, history.version, replaces, waits, note)


def _tasks(
    lake: str,
    topic: str,
    spans: Sequence[LogSpan],
    formats: TopicFormats,
    policy: TopicPolicy,
    files: Sequence[LiveFile],
    replaces: bool,
) -> tuple[DecodeTask, ...]:
    """Tasks log by log, in the order of offsets."""
    made: list[DecodeTask] = []
    for span in spans:
        start = 0 if replaces else span.decoded or 0
        whole = DecodeTask(
            lake=lake,
            topic=topic,
            log=span.log,
            log_id=span.log_id,
            partition=span.partition,
            start=start,
            end=span.end,
            undecoded_from=start if replaces else max(start, span.undecoded or 0),
            formats=formats,
            compression=policy.compression,
            files=(),
        )
        made += whole.over(files, TASK_BYTES, TASK_ROWS)
    return tuple(made)
