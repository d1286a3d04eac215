"""How a job whose tables follow ``records`` commits: topic by topic, each with its frontiers and its policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from spark_jobs.contracts import FollowConfig, JobReport, LogChange, Scalar
from spark_jobs.errors import ConcurrentChange, JobError
from spark_jobs.following.topic_plan import FollowingPlan, Planned, with_way
from spark_jobs.lake.decoded.followed_topics import POLICY, SEEN
from spark_jobs.lake.decoded.topic_tables import remember_tables, topic_table
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.table import Table
from spark_jobs.outlines import FollowingOutline, TopicOutline

Result = TypeVar("Result")
Described = TypeVar("Described", bound=TopicOutline)
Commit = Callable[[Planned, list[Result], Described, list[Table]], tuple[Described, list[LogChange]]]
"""Commits what the tasks of a topic made; returns what the report says of the topic, and what changed by log. It adds
to the tables that exist."""


def commit_topics(
    plan: FollowingPlan[Planned],
    config: FollowConfig[Described],
    results: Iterator[Result],
    describe: Callable[[Planned, Sequence[Result]], Described],
    commit: Commit[Planned, Result, Described],
    metrics: Callable[[Sequence[Described]], Mapping[str, Scalar]],
) -> JobReport[FollowingOutline[Described]]:
    """Commit each topic; a topic that fails does not keep the others from their rows.

    Args:
        results: Of the tasks of all topics that are due, in their order.
        describe: Returns what the report says of a topic whose commit fails, or that is not due.
        metrics: Figures of the report, from what it says of topics.

    Raises:
        ConcurrentChange: Another process committed to a table meanwhile. Plan and run again.
    """
    changed: list[LogChange] = []
    topics: list[Described] = []
    there = [
        topic_table(config.lake, kind, topic.topic)
        for topic in plan.topics
        for kind, recorded in topic.recorded.items()
        if recorded[POLICY] is not None
    ]
    for topic in plan.topics:
        made = [next(results) for _ in topic.tasks] if topic.is_due else []
        described = describe(topic, made)
        if topic.is_due:
            try:
                described, changes = commit(topic, made, described, there)
                changed += changes
            except ConcurrentChange:
                raise
            except JobError as error:
                described = replace(described, waits=str(error))
            described = replace(described, waits=with_way(config, topic.topic, described.waits))
        topics.append(described)
    remember_tables(config.lake, there)
    waiting = sum(topic.waits is not None for topic in topics)
    return JobReport.of(
        config,
        FollowingOutline(tuple(topics)),
        changed=tuple(changed),
        metrics={**metrics(topics), "waiting": waiting},
    )


def guards_of(plan: Planned, table: Table) -> list[Guard]:
    """Return the guards of what a table records beside frontiers."""
    recorded = plan.recorded[table.kind]
    return [
        Guard(table.application_id(POLICY), recorded[POLICY], plan.digest),
        Guard(table.application_id(SEEN), recorded[SEEN], plan.seen),
    ]
