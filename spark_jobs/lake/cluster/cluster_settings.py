"""The policies of a lake with what its cluster said about each topic as of a time, for policies with ``from: cluster``.

The job ``cluster`` wrote what the cluster said into ``cluster_topics`` and ``cluster_topic_configs``. A row counts if
it was valid at the time. What was said later does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from logcore.topics.topic_settings import TopicSetting, TopicSettings
from spark_jobs.lake.cluster_columns import COMMITTED, DOUBTFUL, UNKNOWN_CLUSTER
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.setup.identity import read_identity
from spark_jobs.policies.policies_file import Policies

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
