"""How a job whose tables follow ``records`` commits: topic by topic, each with its frontiers and its policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from spark_jobs.contracts import FollowConfig, JobReport, LogChange, Scalar
from spark_jobs.errors import ConcurrentChange, JobError
from spark_jobs.following.topic_plan import FollowingPlan, Planned, with_way
from spark_jobs.lake.decoded.followed_topics import POLICY, SEEN
from spark_jobs.lake.decoded.remembered_tables import remember
from spark_jobs.lake.decoded.topic_tables import topic_table
from spark_jobs.lake.delta.commits.commit_guards import Guard
from spark_jobs.lake.delta.table import Table

Result = TypeVar("Result")
Described = dict[str, object]
"""What a report says of a topic."""
Commit = Callable[[Planned, list[Result], Described, list[Table]], list[LogChange]]
"""Commits what the tasks of a topic made, and returns what changed by log. It adds to what the report says of the
topic, and to the tables that exist."""


def commit_topics(
    plan: FollowingPlan[Planned],
    config: FollowConfig,
    results: Iterator[Result],
    commit: Commit[Planned, Result],
    metrics: Callable[[Sequence[Described], Sequence[LogChange]], Mapping[str, Scalar]],
    *,
    used_executor: bool,
) -> JobReport:
    """Commit each topic; a topic that fails does not keep the others from their rows.

    Args:
        results: Of the tasks of all topics that are due, in their order.
        metrics: Figures of the report, from what it says of topics and logs.

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
        described = topic.as_dict()
        if topic.is_due:
            made = [next(results) for _ in topic.tasks]
            try:
                changed += commit(topic, made, described, there)
            except ConcurrentChange:
                raise
            except JobError as error:
                described["waits"] = str(error)
            why = described["waits"]
            described["waits"] = with_way(config, topic.topic, None if why is None else str(why))
        topics.append(described)
    remember(config.lake, there)
    waiting = sum(topic["waits"] is not None for topic in topics)
    return JobReport(
        job=config.JOB,
        run_id=config.run_id,
        lake=config.lake,
        changed=tuple(changed),
        plan={"topics": topics},
        used_executor=used_executor,
        metrics={**metrics(topics, changed), "waiting": waiting},
    )


def guards_of(plan: Planned, table: Table) -> list[Guard]:
    """Return the guards of what a table records beside frontiers."""
    recorded = plan.recorded[table.kind]
    return [
        Guard(table.application_id(POLICY), recorded[POLICY], plan.digest),
        Guard(table.application_id(SEEN), recorded[SEEN], plan.seen),
    ]
