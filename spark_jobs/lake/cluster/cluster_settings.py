"""The policies of a lake with what its cluster said about each topic as of a time, for policies with ``from: cluster``.

The job ``cluster`` wrote what the cluster said into ``cluster_topics`` and ``cluster_topic_configs``. A row counts if
it was valid at the time. What was said later does not count.

``loglake config check`` shows the settings of a topic that a run would use, and where each is from: a line of the
policies, a record of the cluster's metadata, or a default.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from logcore.topics.topic_settings import TopicSetting, TopicSettings
from spark_jobs.lake.cluster_columns import COMMITTED, DOUBTFUL, UNKNOWN_CLUSTER
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.setup.identity import read_identity
from spark_jobs.policies.policies_file import Policies
from spark_jobs.policies.topic_policies import OF_CLUSTER, TopicPolicy
from spark_jobs.policies.topic_settings import SETTINGS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_VALIDITY = ["valid_from_offset", "valid_from_time", "valid_to_offset", "valid_to_time", "standing"]
_DOUBT = "Records of the metadata log are lost or cannot be read, and one of them may have changed its settings."


def lake_policies(policies: Policies, lake: str, as_of_ms: int) -> Policies:
    """Return policies with what the cluster said.

    Args:
        policies: As their file states them.
        lake: The lake, whose tables say what the cluster said. They are read only if a policy needs them.
        as_of_ms: The clock of the run, epoch milliseconds.
    """
    if not policies.are_from_cluster:
        return policies
    return replace(policies, cluster={each.topic: each for each in settings_at(lake, as_of_ms)})


def settings_at(lake: str, as_of_ms: int) -> Iterator[TopicSettings]:
    """Return the settings of each topic that the cluster had at a time, epoch milliseconds."""
    cluster = _cluster_with_rows(lake)
    said: dict[str, dict[str, dict[str, Any]]] = {}
    for row in _valid(_rows(lake, "cluster_topic_configs", ["topic", "name", "value"], cluster), as_of_ms):
        said.setdefault(row["topic"], {})[row["name"]] = row
    for topic in _valid(_rows(lake, "cluster_topics", ["topic", "topic_id"], cluster), as_of_ms):
        rows = {name: row for name, row in said.get(topic["topic"], {}).items() if not _is_of_earlier(row, topic)}
        settings = {
            name: TopicSetting(name, row["value"], row["valid_from_offset"], row["standing"] == COMMITTED)
            for name, row in sorted(rows.items())
        }
        is_doubtful = any(row["standing"] == DOUBTFUL for row in (topic, *rows.values()))
        doubt = _DOUBT if is_doubtful else None
        yield TopicSettings(topic["topic"], topic["topic_id"], settings, doubt)


def _cluster_with_rows(lake: str) -> str:
    """The name of the lake's cluster in the rows of its metadata log.

    They are those of the unknown cluster if no run has read the metadata log since the id is known.
    """
    identity = read_identity(lake)
    cluster = UNKNOWN_CLUSTER if identity is None or identity.cluster is None else identity.cluster
    has_rows = read_rows(lake, "cluster_topics", ["cluster"], [("cluster", "==", cluster)]).num_rows > 0
    return cluster if has_rows else UNKNOWN_CLUSTER


def _is_of_earlier(setting: dict[str, Any], topic: dict[str, Any]) -> bool:
    """Whether a setting ended before the topic began. Clocks of controllers differ, so both may be valid at a time."""
    ended = setting["valid_to_offset"]
    return ended is not None and ended <= topic["valid_from_offset"]


def _rows(lake: str, table: str, columns: list[str], cluster: str) -> list[dict[str, Any]]:
    return read_rows(lake, table, [*columns, *_VALIDITY], [("cluster", "in", [cluster])]).to_pylist()


def _valid(rows: Iterable[dict[str, Any]], as_of_ms: int) -> Iterable[dict[str, Any]]:
    """The rows that were valid at the time, by the offset from which on they were."""
    time = _EPOCH + timedelta(milliseconds=as_of_ms)
    return sorted((row for row in rows if _is_valid(row, time)), key=lambda row: int(row["valid_from_offset"]))


def _is_valid(row: dict[str, Any], time: datetime) -> bool:
    begun, ended = row["valid_from_time"], row["valid_to_time"]
    if begun is not None and begun > time:
        return False
    return row["valid_to_offset"] is None or (ended is not None and ended > time)


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
