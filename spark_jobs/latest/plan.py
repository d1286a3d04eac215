"""The work of ``latest``: per topic and log the offsets between two frontiers, or why a topic waits.

Rows of ``records`` that were added, replaced or removed below a frontier change which row is the newest of a key. A
removed row may even bring back one that the table no longer has. Then the whole topic is computed again from
``records``: if a commit did that, if the commits are gone, or if the number of rows below a frontier changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from spark_jobs.contracts import LatestConfig
from spark_jobs.lake.decoded.balance import published_below
from spark_jobs.lake.decoded.followed_topics import POLICY, ROWS, SEEN, followed_topics, has_unseen
from spark_jobs.lake.decoded.records_history import RecordsHistory
from spark_jobs.lake.decoded.topic_tables import LATEST, TopicTable
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.delta.tables.table_features import is_supported
from spark_jobs.lake.errors import JobError
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.lake.setup.policies.topic_policies import LATEST_POLICIES, TopicPolicy
from spark_jobs.latest.latest_task import LatestTask
from spark_jobs.row_files.published_rows import Span

IN_PROCESS_BYTES = 1 << 20
"""Up to so many bytes of files the driver reads by itself: it needs no worker."""


@dataclass(frozen=True, slots=True)
class KeyedSpan:
    """What is to be added of a log."""

    log: str
    partition: int
    log_id: str
    recorded: int | None
    """Frontier of the table."""
    rows: int | None
    """Rows of ``records`` below it."""
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class KeyedTopicPlan:
    """The work on a topic, or why it waits."""

    topic: str
    spans: tuple[KeyedSpan, ...] = ()
    policy: TopicPolicy | None = None
    recorded: Mapping[str, int | None] = field(default_factory=dict)
    """What the table records, by :data:`POLICY` and :data:`SEEN`."""
    seen: int = 0
    """Version of ``records`` that the plan was made on."""
    tasks: tuple[LatestTask, ...] = ()
    """A task for each span."""
    replaces: bool = False
    waits: str | None = None
    note: str | None = None
    """Why all rows are computed again without a request."""

    @property
    def digest(self) -> int:
        """The policy, as the table records it."""
        assert self.policy is not None
        assert self.policy.latest is not None
        return LATEST_POLICIES[self.policy.latest]

    @property
    def left(self) -> int:
        """Offsets that are published and not in the table."""
        return sum(span.end - span.start for span in self.spans)

    @property
    def is_due(self) -> bool:
        """Whether there is something to commit."""
        return self.waits is None and (bool(self.spans) or has_unseen(self.seen, self.recorded.get(SEEN)))

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
class LatestPlan:
    """The work on all topics whose policy has ``latest``."""

    topics: tuple[KeyedTopicPlan, ...]

    @property
    def is_empty(self) -> bool:
        """Whether no topic has work."""
        return not any(topic.is_due for topic in self.topics)

    @property
    def needs_executor(self) -> bool:
        """Whether there is more to read than the driver reads by itself."""
        return sum(task.size for topic in self.topics if topic.is_due for task in topic.tasks) > IN_PROCESS_BYTES

    def as_dict(self) -> dict[str, object]:
        """The plan as plain values."""
        return {"topics": [topic.as_dict() for topic in self.topics]}


def plan(config: LatestConfig) -> LatestPlan:
    """Plan, for each topic with a policy, the rows between the frontiers.

    Raises:
        UsageError: A topic is to be replaced whose policy has no ``latest``.
        TableUnreadable: ``records`` or a table of state is damaged.
    """
    policies = config.policies
    if not any(policy.latest for policy in policies.topics) and not config.replace:
        return LatestPlan(())
    history = RecordsHistory.of(config.lake)
    plans = []
    for topic in followed_topics(
        config.lake, policies, lambda policy: policy.latest is not None, config.topics, config.replace
    ):
        try:
            plans.append(_plan_topic(config, topic.name, topic.logs, topic.policy, history))
        except JobError as error:  # of this topic only
            plans.append(KeyedTopicPlan(topic.name, waits=str(error)))
    return LatestPlan(tuple(plans))


def _plan_topic(
    config: LatestConfig, topic: str, logs: Sequence[LogRow], policy: TopicPolicy, history: RecordsHistory
) -> KeyedTopicPlan:
    keys = [log.log for log in logs]
    table = TopicTable(config.lake, LATEST, topic)
    published = frontier.read_frontiers(config.lake, keys)
    found = table.versions([*keys, *(ROWS + key for key in keys), POLICY, SEEN])
    recorded = {what: found[what] for what in (POLICY, SEEN)}
    files = tuple(file for file in history.files if file.partition_values["topic"] == topic)
    assert policy.latest is not None
    replaces, waits, note = topic in config.replace, None, None
    if not replaces and recorded[POLICY] not in (None, LATEST_POLICIES[policy.latest]):
        waits = (
            "its policy `latest` differs from the one that its rows were computed with. To compute them again: "
            f"loglake latest {config.lake} --replace {topic}"
        )
    elif not replaces:
        frontiers = {(log.log_id, log.partition): found[log.log] or 0 for log in logs}
        why = _changed(config.lake, topic, logs, found, history, files) or next(
            iter(each for each in history.rewritten(topic, recorded[SEEN], frontiers) if each is not None), None
        )
        if why is not None:
            replaces, note = True, f"{why}: all rows were computed again"
    spans = tuple(
        KeyedSpan(log.log, log.partition, log.log_id, found[log.log], found[ROWS + log.log], start, end)
        for log in sorted(logs, key=lambda each: (each.partition, each.log_id))
        for start in (0 if replaces else found[log.log] or 0,)
        if (end := published[log.log]) is not None and (replaces or end > start)
    )
    made = KeyedTopicPlan(topic, spans, policy, recorded, history.version, (), replaces, waits, note)
    if waits is not None or not spans:
        return made
    opened = None if replaces else table.open()
    if opened is not None and not is_supported(opened):
        raise JobError(
            "another program removed rows by deletion vectors, or gave the table another feature. To compute it again: "
            f"loglake latest {config.lake} --replace {topic}"
        )
    return replace(made, tasks=_tasks(config, made, policy, files, [] if replaces else table.files()))


def _tasks(
    config: LatestConfig,
    plan: KeyedTopicPlan,
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
            f"loglake latest {config.lake} --replace {plan.topic}"
        )
    made = []
    for each in plan.spans:
        span = Span(plan.topic, each.log_id, each.partition, each.start, each.end)
        of_log = [file for file in held if (file.log_id, file.partition) == (each.log_id, each.partition)]
        made.append(
            LatestTask(
                config.lake,
                span,
                tuple(file for file in published if span.may_be_in(file)),
                tuple(sorted(of_log, key=lambda file: (file.min_offset or 0, file.path))),
                policy.latest == "soft-delete",
                policy.compression,
                config.keys_in_memory,
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
