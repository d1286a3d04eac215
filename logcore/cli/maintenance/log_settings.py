"""The settings of a topic for `recover`, `reindex`, `retain` and `compact`: typed, said by the cluster, or defaults.

    1  --config NAME=VALUE
    2  `__cluster_metadata-0` in the log directory of the partition, at the clock of the command
    3  Kafka's defaults

Only settings that were made for the topic are in the metadata. If records of it are lost, or it does not name the
topic at that time, the settings are in doubt: a command that removes records then refuses, and the others go on without
them and say so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from logcore.errors import LogError
from logcore.logs.model.findings import Finding, Severity, found
from logcore.logs.model.topic_config import TopicConfig, kafka_name, topic_config
from logcore.reading.chosen_logs import find_logs
from logcore.reading.internal_topics.cluster_metadata import Moment, left_out, read_cluster_state
from logcore.reading.notes import Notes
from logcore.reading.read_options import ReadOptions
from logcore.segments.filenames import METADATA_DIRECTORY, METADATA_TOPIC, parse_partition_directory
from logcore.storage.broker.broker_state import StateReader
from logcore.storage.source_errors import shown
from logcore.texts import sentences
from logcore.topics.topic_settings import TopicSetting, TopicSettings, settings_of_topics

_ADVICE = "Type settings with --config, or leave the metadata out with --config-from none."
_SHOWN_FINDINGS = 3


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The settings of one log.

    Attributes:
        config: The settings.
        typed: Names that were typed.
        said: Settings of the metadata that are used, by name.
        used: Names that the command uses.
        doubt: A finding, if the metadata is in doubt.
    """

    config: TopicConfig
    typed: frozenset[str]
    said: Mapping[str, TopicSetting]
    used: Sequence[str]
    doubt: Finding | None = None

    def as_dict(self) -> dict[str, Any]:
        """Each setting that the command uses, and where its value is from."""
        shown_settings: dict[str, Any] = {}
        for each in fields(TopicConfig):
            name = kafka_name(each.name)
            if name not in self.used:
                continue
            value = getattr(self.config, each.name)
            plain: dict[str, Any] = {"value": ",".join(value) if isinstance(value, tuple) else value}
            if name in self.typed:
                plain["from"] = "--config"
            elif name in self.said:
                plain |= {"from": METADATA_DIRECTORY, "offset": self.said[name].offset}
                plain["committed"] = self.said[name].is_committed
            else:
                plain["from"] = "default"
            shown_settings[name] = plain
        return shown_settings

    @property
    def lines(self) -> str:
        """A line for each setting that is from the metadata."""
        lines = []
        for name, setting in self.said.items():
            standing = "committed" if setting.is_committed else "tentative"
            lines.append(f"{name} is {setting.value}: {METADATA_DIRECTORY}, offset {setting.offset}, {standing}\n")
        return "".join(lines)


@dataclass(slots=True)
class SettingsOfLogs:
    """Finds the settings of each log of a command.

    Attributes:
        typed: Texts by Kafka's names.
        used: Names that the command uses.
        as_of_ms: The clock of the command, epoch milliseconds.
        reads_metadata: Whether the metadata beside a log is read.
        refuses_doubt: Whether the command refuses a log whose settings are in doubt.
    """

    typed: Mapping[str, str]
    used: Sequence[str]
    as_of_ms: int
    reads_metadata: bool = True
    refuses_doubt: bool = True
    _said: dict[str, dict[str, TopicSettings] | Finding | None] = field(default_factory=dict)
    """By log directory: settings by topic, the reason why there are none, or None without metadata."""

    def of(self, path: str) -> LogSettings:
        """Return the settings of a partition directory.

        Raises:
            LogError: They are in doubt, and the command refuses that.
        """
        said, doubt = self._of_metadata(os.path.abspath(path))
        if doubt is not None and self.refuses_doubt:
            raise LogError(doubt.message, advice=_ADVICE)
        taken = {name: said[name] for name in self.used if name in said and name not in self.typed}
        config = topic_config({name: setting.value for name, setting in taken.items()} | dict(self.typed))
        return LogSettings(config, frozenset(self.typed), taken, self.used, doubt)

    def _of_metadata(self, path: str) -> tuple[Mapping[str, TopicSetting], Finding | None]:
        parsed = parse_partition_directory(os.path.basename(path))
        if parsed is None or not self.reads_metadata or set(self.used) <= set(self.typed):
            return {}, None
        root, topic = os.path.dirname(path), parsed[0].topic
        if topic == METADATA_TOPIC:  # no record of the metadata names it
            return {}, None
        if root not in self._said:
            self._said[root] = self._read(root)
        known = self._said[root]
        if not isinstance(known, dict):
            return {}, known
        metadata = shown(os.path.join(root, METADATA_DIRECTORY))
        settings = known.get(topic)
        if settings is None:
            return {}, _in_doubt(metadata, f"It does not name the topic {topic} at the time of the command.")
        topic_id, is_unusable = StateReader().topic_id(path)
        if is_unusable:
            why = f"partition.metadata of {parsed[0]} cannot be used, so that the topic {topic} there may be another."
            return {}, _in_doubt(metadata, why)
        other = settings.other_topic(topic_id)
        if other is not None:
            return {}, _in_doubt(metadata, other)
        for name in self.used:
            setting = None if name in self.typed else settings.settings.get(name)
            try:
                topic_config({} if setting is None else {name: setting.value})
            except ValueError:
                at = -1 if setting is None else setting.offset
                return {}, _in_doubt(metadata, f"Its {name} of {topic}, offset {at}, is no value that Kafka allows.")
        return settings.settings, None

    def _read(self, root: str) -> dict[str, TopicSettings] | Finding | None:
        path = os.path.join(root, METADATA_DIRECTORY)
        if not os.path.lexists(path):
            return None
        notes = Notes()
        logs = [log for log in find_logs(ReadOptions((path,)), notes) if log.directory.endswith(METADATA_DIRECTORY)]
        if not logs:
            return _in_doubt(shown(path), "It cannot be read.", notes)
        read = read_cluster_state(logs[0], notes, Moment(time_ms=self.as_of_ms))
        doubt = read.doubt or left_out(logs[0], read.end_offset, self.as_of_ms)
        if doubt is not None:
            return _in_doubt(shown(path), doubt, notes)
        return settings_of_topics(read.state, read.committed_end, None)


def _in_doubt(path: str, why: str, notes: Notes | None = None) -> Finding:
    """Return the finding; its message has the first findings about the metadata that are not for information only."""
    findings = [] if notes is None else [each for each in notes.findings if each.severity is not Severity.INFO]
    reasons = sentences([why, *(each.message for each in findings[:_SHOWN_FINDINGS])])
    return found("settings-in-doubt", f"{path}: what it says of settings is in doubt. {reasons}", file=path)
