"""The work of ``latest``: per topic and log the offsets between two frontiers, or why a topic waits.

Rows of ``records`` that were added, replaced or removed below a frontier change which row is the newest of a key. A
removed row may even bring back one that the table no longer has. Then the whole topic is computed again from
``records``: if a commit did that, if the commits are gone, or if the number of rows below a frontier changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from spark_jobs.contracts import LatestConfig
from spark_jobs.errors import JobError
from spark_jobs.following.topic_plan import FollowingPlan, TopicPlan, TopicTables, plan_topics
from spark_jobs.lake.decoded.balance import published_below
from spark_jobs.lake.decoded.followed_topics import POLICY, ROWS, SEEN, FollowedTopic
from spark_jobs.lake.decoded.records_history import RecordsHistory
from spark_jobs.lake.decoded.topic_tables import LATEST, topic_table
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.delta.tables.table_features import is_supported
from spark_jobs.lake.repair_commands import topic_command
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.latest.latest_task import LatestTask
from spark_jobs.outlines import LatestOutline
from spark_jobs.policies.topic_policies import LATEST_POLICIES, TopicPolicy


@dataclass(frozen=True, slots=True)
class LatestTopicPlan(TopicPlan[LatestTask]):
    """The work on a topic whose policy has ``latest``: a task for each span."""

    KINDS = (LATEST,)

    rows: Mapping[str, int | None] = field(default_factory=dict)
    """Rows of ``records`` below the frontier, by log."""

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
    tables = TopicTables.of(config.lake, followed, LatestTopicPlan.KINDS, [*rows, POLICY, SEEN])
    found = tables.main
    files = tuple(file for file in history.files if file.partition_values["topic"] == topic)
    assert policy.latest is not None
    digest = LATEST_POLICIES[policy.latest]
    replaces, waits, note = topic in config.replace, None, None
    if not replaces and tables.has_other_policy(digest):
        waits = (
            "its policy `latest` differs from the one that its rows were computed with. To compute them again: "
            f"`{topic_command(config.lake, 'latest', topic)}`"
        )
    elif not replaces:
        why = _changed(config.lake, topic, followed.logs, found, history, files) or next(
            iter(each for each in history.rewritten(topic, found[SEEN], tables.frontiers()) if each is not None), None
        )
        if why is not None:
            replaces, note = True, f"{why}: all rows were computed again"
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
    return replace(made, tasks=_tasks(config, made, policy, files, [] if replaces else table.files()))


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
