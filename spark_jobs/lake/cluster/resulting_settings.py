"""The settings of a topic that a run would use, and where each is from: for ``loglake config check``.

A setting is from a line of the policies, from a record of the cluster's metadata, or it has its default.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spark_jobs.policies.policies_file import Policies
from spark_jobs.policies.topic_policies import TopicPolicy
from spark_jobs.policies.topic_settings import SETTINGS

POLICIES, CLUSTER, DEFAULT = "policies", "cluster", "default"


@dataclass(frozen=True, slots=True)
class ResultingSetting:
    """A setting of a topic.

    Attributes:
        name: Its name in the policies.
        value: As it is used: times in milliseconds, sizes in bytes.
        origin: ``policies``, ``cluster`` or ``default``.
        line: Of the policies.
        offset: Of the record in the metadata log.
        is_committed: Whether the latest snapshot of the metadata covers that record.
    """

    name: str
    value: object
    origin: str
    line: int | None = None
    offset: int | None = None
    is_committed: bool | None = None

    def as_dict(self) -> dict[str, object]:
        """The setting as plain values."""
        plain: dict[str, object] = {"name": self.name, "value": self.value, "from": self.origin}
        if self.origin == POLICIES:
            plain["line"] = self.line
        if self.origin == CLUSTER:
            plain |= {"offset": self.offset, "committed": self.is_committed}
        return plain

    @property
    def text(self) -> str:
        """The setting as one line."""
        shown = f"{self.name} = {SETTINGS[self.name].text(self.value)}"
        if self.origin == POLICIES:
            return f"{shown}  (line {self.line})"
        if self.origin == CLUSTER:
            standing = "committed" if self.is_committed else "tentative"
            return f"{shown}  (cluster, offset {self.offset} of its metadata, {standing})"
        return f"{shown}  (default{': nothing is removed' if self.name == 'cleanup.policy' else ''})"

    @property
    def is_worth_a_line(self) -> bool:
        """Whether it is stated, or its default says that something is never removed."""
        return self.origin != DEFAULT or self.name in ("cleanup.policy", "retention.ms", "retention.bytes")


def resulting(
    policies: Policies, topic: str, topic_id: str | None
) -> tuple[TopicPolicy | None, Sequence[ResultingSetting]]:
    """Return the policy of a topic as a run uses it, and its settings.

    Args:
        policies: Those of the file, with what the cluster said.
        topic: The topic.
        topic_id: Of its log; None: not known.

    Returns:
        The policy, None without one. Kafka's settings of a topic, and those of Loglake that the file states.
    """
    policy = policies.for_log(topic, topic_id)
    return policy, () if policy is None else tuple(_settings(policies, policy, topic))


def _settings(policies: Policies, policy: TopicPolicy, topic: str) -> Iterator[ResultingSetting]:
    from spark_jobs.policies.topic_policies import OF_CLUSTER

    lines = dict(policy.lines)
    said = policies.cluster.get(topic)
    takes = said is not None and policy.settings_from is not None and policy.doubt is None
    for setting in SETTINGS.values():
        value = getattr(policy, setting.field)
        if setting.field in lines:
            yield ResultingSetting(setting.name, value, POLICIES, line=lines[setting.field])
        elif takes and said is not None and setting in OF_CLUSTER and setting.name in said.settings:
            found = said.settings[setting.name]
            yield ResultingSetting(setting.name, value, CLUSTER, offset=found.offset, is_committed=found.is_committed)
        elif setting in OF_CLUSTER:
            yield ResultingSetting(setting.name, value, DEFAULT)
