"""The work of ``latest``: per topic and log the offsets between two frontiers, or why a topic waits.

Where the topic is decoded, the rows have the values of its decoded table, up to the frontier of that table.

Rows of ``records`` that were added, replaced or removed below a frontier change which row is the newest of a key. A
removed row may even bring back one that the table no longer has. Then the whole topic is computed again from
``records``: if a commit did that, if the commits are gone, if the number of rows below a frontier changed, or if the
decoded table was written again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from spark_jobs.contracts import LatestConfig
from spark_jobs.errors import JobError
from spark_jobs.following.topic_plan import FollowingPlan, TopicPlan, TopicTables, plan_topics
from spark_jobs.lake.decoded.balance import published_below
from spark_jobs.lake.decoded.followed_topics import POLICY, REPLACED, ROWS, SEEN, FollowedTopic, latest_digest
from spark_jobs.lake.decoded.records_history import RecordsHistory
from spark_jobs.lake.decoded.topic_tables import DECODED, LATEST, UNDECODED, topic_table
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.delta.tables.table_features import is_supported
from spark_jobs.lake.repair_commands import follow_command, topic_command
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.latest.decoded_values import DecodedFiles
from spark_jobs.latest.latest_task import LatestTask
from spark_jobs.outlines import LatestOutline
from spark_jobs.policies.topic_policies import TopicPolicy


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
