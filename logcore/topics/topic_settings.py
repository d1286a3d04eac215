"""What a cluster said about the settings of a topic, and which record of the metadata said it.

Only settings that were made for the topic itself are here. Defaults of brokers are not in the metadata.

Source: org.apache.kafka.common.metadata ConfigRecord; KIP-631.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from logcore.topics.cluster_states import TOPIC_RESOURCE, ClusterState


@dataclass(frozen=True, slots=True)
class TopicSetting:
    """A setting of a topic.

    Attributes:
        name: Kafka's name.
        value: As text; `(redacted)` for a secret.
        offset: Of the record in the metadata log that said it; of a snapshot that of its last record.
        is_committed: Whether the latest snapshot covers the record.
    """

    name: str
    value: str
    offset: int
    is_committed: bool


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The settings of a topic at one moment.

    Attributes:
        topic: Name.
        topic_id: As text; None if it is not known.
        settings: By name.
        doubt: Why they may be others, as a sentence; None if they are certain.
    """

    topic: str
    topic_id: str | None
    settings: Mapping[str, TopicSetting]
    doubt: str | None = None

    def other_topic(self, topic_id: str | None) -> str | None:
        """Return why a log may be of another topic of the name, as a sentence; None: it is of this one.

        Brokers write the id beside each log of a topic that the metadata names. Without it the log may be of an earlier
        topic, or of another cluster. If the metadata has no id either, it is of a cluster before Kafka 2.8, which knew
        topics by their names only.

        Args:
            topic_id: Of the log; None: not known.
        """
        if topic_id is None and self.topic_id is None:
            return None
        if topic_id is None:
            return f"The id of the log's topic is not known, so that the topic {self.topic} there may be another."
        if topic_id != self.topic_id:
            return f"The topic was recreated: the metadata is about topic id {self.topic_id}, the log has {topic_id}."
        return None


def settings_of_topics(state: ClusterState, committed_end: int, doubt: str | None) -> dict[str, TopicSettings]:
    """Return the settings of each topic in a state, by its name.

    Args:
        state: The state of the cluster.
        committed_end: The offset up to which the metadata log is known to be committed.
        doubt: As in `TopicSettings`.
    """
    found: dict[str, TopicSettings] = {}
    for topic in state.topics.values():
        name = str(topic.fields["topic"])
        rows = state.settings.get((TOPIC_RESOURCE, name), {})
        settings = {
            setting: TopicSetting(setting, str(row.fields["value"]), row.offset, row.offset < committed_end)
            for setting, row in sorted(rows.items())
        }
        found[name] = TopicSettings(name, topic.fields["topic_id"], settings, doubt)
    return found
