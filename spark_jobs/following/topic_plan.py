"""The plan of a job whose tables follow ``records``: per topic and log the offsets between two frontiers, or why a
topic waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from spark_jobs.contracts import FollowConfig
from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake.decoded.followed_topics import POLICY, SEEN, FollowedTopic, followed_topics, has_unseen
from spark_jobs.lake.decoded.records_history import RecordsHistory
from spark_jobs.lake.decoded.topic_tables import topic_table
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.published.published_rows import Span
from spark_jobs.lake.repair_commands import follow_command
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.outlines import FollowingOutline, TopicOutline
from spark_jobs.policies.topic_policies import TopicPolicy


class RowTask(Protocol):
    """Makes rows of one log."""

    @property
    def size(self) -> int:
        """Bytes that it reads."""


Task = TypeVar("Task", bound=RowTask)


@dataclass(frozen=True, slots=True)
class LogSpan(Span):
    """Offsets ``[start, end)`` of a log that its tables do not have yet."""

    frontiers: Mapping[str, int | None]
    """By kind of table."""


@dataclass(frozen=True, slots=True)
class TopicPlan(Generic[Task]):
    """The work on a topic, or why it waits."""

    KINDS: ClassVar[tuple[str, ...]]
    """Kinds of the topic's tables, in the order of their commits. The last one says how far the topic is."""

    topic: str
    spans: tuple[LogSpan, ...] = ()
    tasks: tuple[Task, ...] = ()
    digest: int = 0
    """Of the policy, as the tables record it."""
    recorded: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    """By kind of table: what it records beside frontiers."""
    seen: int = 0
    """Version of ``records`` that the plan was made on."""
    replaces: bool = False
    waits: str | None = None
    note: str | None = None
    """Why all rows are made again without a request, or what could not be checked."""

    @property
    def left(self) -> int:
        """Offsets that are published and not in the tables."""
        return sum(span.end - span.start for span in self.spans)

    @property
    def is_due(self) -> bool:
        """Whether there is something to commit."""
        return self.waits is None and (bool(self.spans) or self.has_unseen)

    @property
    def has_unseen(self) -> bool:
        """Whether the next plan would have to read many commits of ``records`` again."""
        return has_unseen(self.seen, self.recorded.get(self.KINDS[-1], {}).get(SEEN))

    @property
    def said(self) -> tuple[str, int, bool, str | None, str | None]:
        """The fields of :class:`TopicOutline`."""
        return self.topic, self.left, self.replaces, self.waits, self.note

    @property
    def outline(self) -> TopicOutline:
        """What a report and a dry run say of it."""
        return TopicOutline(*self.said)


Planned = TypeVar("Planned", bound=TopicPlan[Any])


@dataclass(frozen=True, slots=True)
class FollowingPlan(Generic[Planned]):
    """The work on all topics whose policy names such tables."""

    topics: tuple[Planned, ...]

    @property
    def is_empty(self) -> bool:
        """Whether no topic has work."""
        return not self.due

    @property
    def due(self) -> tuple[Planned, ...]:
        """The topics with work."""
        return tuple(topic for topic in self.topics if topic.is_due)

    @property
    def task_bytes(self) -> int | None:
        """Bytes that the tasks read; None: there are no tasks."""
        tasks = [task for topic in self.due for task in topic.tasks]
        return sum(task.size for task in tasks) if tasks else None

    @property
    def outline(self) -> FollowingOutline[TopicOutline]:
        """What a dry run says of it."""
        return FollowingOutline(tuple(topic.outline for topic in self.topics))


@dataclass(frozen=True, slots=True)
class TopicTables:
    """What the tables of a topic record, and how far its logs are published."""

    logs: Sequence[LogRow]
    published: Mapping[str, int | None]
    """Frontier of ``records`` by log."""
    found: Mapping[str, Mapping[str, int | None]]
    """By kind, in the order of commits: recorded versions, by log and by other names."""

    @classmethod
    def of(cls, lake: str, topic: FollowedTopic, kinds: Sequence[str], more: Sequence[str] = ()) -> TopicTables:
        """Read them.

        Args:
            more: What the tables record beside frontiers.

        Raises:
            TableUnreadable: A table is damaged.
        """
        logs = sorted(topic.logs, key=lambda each: (each.partition, each.log_id))
        keys = [log.log for log in logs]
        found = {kind: topic_table(lake, kind, topic.name).versions([*keys, *more]) for kind in kinds}
        return cls(logs, frontier.read_frontiers(lake, keys), found)

    @property
    def main(self) -> Mapping[str, int | None]:
        """What the table records that says how far the topic is."""
        return self.found[[*self.found][-1]]

    def recorded(self, *what: str) -> dict[str, dict[str, int | None]]:
        """Return by kind what the tables record beside frontiers."""
        return {kind: {each: versions[each] for each in what} for kind, versions in self.found.items()}

    def has_other_policy(self, digest: int) -> bool:
        """Return whether a table was made by another policy than that of this digest."""
        return not {versions[POLICY] for versions in self.found.values()} <= {None, digest}

    def frontiers(self) -> dict[tuple[str, int], int]:
        """Return the next offset to read, by log id and partition."""
        return {(log.log_id, log.partition): self.main[log.log] or 0 for log in self.logs}

    def spans(self, *, replaces: bool) -> tuple[LogSpan, ...]:
        """Return what the tables do not have yet; of tables that are written again everything."""
        return tuple(
            LogSpan(log.topic, log.log_id, log.partition, start, end, {k: v[log.log] for k, v in self.found.items()})
            for log in self.logs
            for start in (0 if replaces else self.main[log.log] or 0,)
            if (end := self.published[log.log]) is not None and (replaces or end > start)
        )


def plan_topics(
    config: FollowConfig[TopicOutline],
    made: type[Planned],
    wants: Callable[[TopicPolicy], bool],
    planner: Callable[[RecordsHistory], Callable[[FollowedTopic], Planned]],
) -> FollowingPlan[Planned]:
    """Plan each topic with a policy; a topic that cannot be planned waits, with the offsets that it has left.

    Args:
        made: The class of the plans.
        wants: Whether a policy names the tables.
        planner: Returns what plans one topic, or raises `JobError` or `UsageError`.

    Raises:
        UsageError: A topic is to be replaced whose policy does not name the tables.
        TableUnreadable: ``records`` or a table of state is damaged.
    """
    if not any(map(wants, config.policies.topics)) and not config.replace:
        return FollowingPlan(())  # the usual case: nothing else is opened
    history = RecordsHistory.of(config.lake)
    plans, plan_topic = [], planner(history)
    for topic in followed_topics(config.lake, config.policies, wants, config.topics, config.replace):
        try:
            plans.append(plan_topic(topic))
        except (JobError, UsageError) as error:  # of this topic only
            plans.append(_waiting(config.lake, topic, made, str(error)))
    return FollowingPlan(tuple(replace(each, waits=with_way(config, each.topic, each.waits)) for each in plans))


def with_way(config: FollowConfig[TopicOutline], topic: str, waits: str | None) -> str | None:
    """Return why a topic waits with the command that follows when that is corrected, unless it names a command."""
    if waits is None or "`loglake " in waits:
        return waits
    return f"{waits.rstrip('.')}. When that is corrected: `{follow_command(config.lake, config.JOB, topic)}`"


def _waiting(lake: str, topic: FollowedTopic, made: type[Planned], why: str) -> Planned:
    """A topic that cannot be planned, with the offsets that it has left as far as its tables can be read."""
    try:
        spans = TopicTables.of(lake, topic, made.KINDS).spans(replaces=False)
    except JobError:
        spans = ()
    return made(topic.name, spans, waits=why)
