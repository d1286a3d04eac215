"""Topics whose tables follow ``records``: which ones a job works on, and what their tables record beside frontiers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from logcore.logs.model.log_selection import LogSelection
from spark_jobs.errors import UsageError
from spark_jobs.groups import by_key
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import LogRow
from spark_jobs.policies.policies_file import Policies
from spark_jobs.policies.topic_policies import LATEST_POLICIES, TopicPolicy

POLICY, SEEN, SCHEMAS = "policy", "records", "schemas"
"""What a table records beside frontiers: digest of the policy, the version of ``records`` that was read, and digest of
the schemas that rows may name."""

REPLACED = "replaced"
"""What a decoded table records too: how many times it was written again as a whole. A table of the latest rows records
the number of the decoded table that its values are from."""

ROWS = "rows/"
"""What a table of the latest rows records too, by log: the rows of ``records`` below its frontier."""

UNSEEN_COMMITS = 64
"""After so many commits of ``records`` without rows of a topic, its table records that it has seen them."""


@dataclass(frozen=True, slots=True)
class FollowedTopic:
    """A topic of the lake, its logs and its policy."""

    name: str
    logs: Sequence[LogRow]
    policy: TopicPolicy


def followed_topics(
    lake: str,
    policies: Policies,
    follows: Callable[[TopicPolicy], bool],
    chosen: Sequence[str],
    replaced: Sequence[str],
) -> list[FollowedTopic]:
    """Return the chosen topics whose policy names the tables of a job, by name.

    Args:
        follows: Whether a policy names them.
        chosen: Names or patterns; none: all topics.
        replaced: Topics whose tables are to be written again.

    Raises:
        UsageError: A topic is to be replaced that is not among them.
    """
    by_topic = by_key(archive.read_logs(lake).values(), lambda log: log.topic)
    selection = LogSelection(tuple(chosen))
    found = [
        FollowedTopic(topic, logs, policy)
        for topic, logs in sorted(by_topic.items())
        if (policy := policies.for_topic(topic)) is not None
        and follows(policy)
        and (selection.matches_topic(topic) or topic in chosen)
    ]
    unknown = [topic for topic in replaced if topic not in {each.name for each in found}]
    if unknown:
        raise UsageError(f"--replace {unknown[0]}: no policy names such a table for a topic of this name in the lake.")
    return found


def latest_digest(policy: TopicPolicy) -> int:
    """Return what a table of the latest rows records of its policy. These numbers must not change."""
    return LATEST_POLICIES[policy.latest or ""] + (2 if policy.decodes else 0)


def keeps_tombstones(digest: int | None) -> bool:
    """Return whether a table with this :func:`latest_digest` has rows of deleted keys."""
    return digest is not None and digest % 2 == 0


def has_unseen(version: int, last: int | None) -> bool:
    """Return whether the next plan would have to read many commits of ``records`` again.

    Args:
        version: Of ``records``.
        last: The version that a table recorded.
    """
    return last is not None and version - last >= UNSEEN_COMMITS
