"""Small text files that a broker keeps beside its logs: checkpoints, topic ids, cluster properties.

    checkpoint files      line 1  version, always 0
                          line 2  number of entries
                          line 3+ one entry for each line, each line ends with a newline
      offsets             `topic partition offset`      {replication,log-start,recovery-point,cleaner}-offset-…
      leader epochs       `epoch startOffset`           leader-epoch-checkpoint, ascending
    partition.metadata    `version: 0` newline `topic_id: <22 characters>`, no newline at the end
    meta.properties       Java properties: version, cluster.id, node.id (version 1) or broker.id (0), directory.id
    .kafka_cleanshutdown  `{"version":0,"brokerEpoch":<n>}`, zero bytes before Kafka 3.6; only its existence counts
    quorum-state          JSON: the last vote of a KRaft voter, beside the metadata log

A checkpoint of zero bytes has no entries: brokers create it so. No file has a checksum. So a file is read completely or
refused completely with CorruptIndexError, except the clean-shutdown marker, whose content no broker needs. Entries of
offset checkpoints are in the order of a hash map: compare them as sets. A checkpoint has a topic's name and not its id,
so it may describe an earlier topic.

Sources: Kafka CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile, PartitionMetadataFile, MetaProperties,
CleanShutdownFileHandler, FileQuorumStateStore.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from logcore.errors import CorruptIndexError
from logcore.segments.filenames import MAX_OFFSET, MAX_PARTITION, TopicPartition, is_legal_topic
from logcore.segments.side_files.leader_epochs import EpochEntry, assign
from logcore.texts import without_half_pairs

_NUMBER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_PLAIN_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_offset_checkpoint(content: str | bytes) -> dict[TopicPartition, int]:
    """Parse an offset checkpoint.

    Raises:
        CorruptIndexError: A line does not have the right format.
    """
    offsets: dict[TopicPartition, int] = {}
    for number, fields in _entries(content, fields=3):
        topic, partition_text, offset_text = fields
        partition = _number(partition_text, number, low=0, high=MAX_PARTITION)
        if not is_legal_topic(topic):
            raise CorruptIndexError(f"checkpoint line {number} names no legal topic")
        topic_partition = TopicPartition(topic, partition)
        if topic_partition in offsets:
            raise CorruptIndexError(f"checkpoint line {number} names {topic_partition} a second time")
        offsets[topic_partition] = _number(offset_text, number, low=0, high=MAX_OFFSET)
    return offsets


def format_offset_checkpoint(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Build the bytes of an offset checkpoint, entries sorted by topic partition."""
    return _format((f"{key.topic} {key.partition} {offset}" for key, offset in sorted(offsets.items())), len(offsets))


def parse_leader_epochs(content: str | bytes) -> tuple[EpochEntry, ...]:
    """Parse a leader-epoch-checkpoint.

    Raises:
        CorruptIndexError: It is malformed, or epochs or offsets do not increase.
    """
    entries: list[EpochEntry] = []
    for number, entry in _leader_epochs(content):
        if entries and (entry.epoch <= entries[-1].epoch or entry.start_offset < entries[-1].start_offset):
            raise CorruptIndexError(f"checkpoint line {number}: epoch {entry.epoch} does not follow the one before")
        entries.append(entry)
    return tuple(entries)


def load_leader_epochs(content: str | bytes) -> tuple[EpochEntry, ...]:
    """Parse a leader-epoch-checkpoint as a broker does: where entries do not increase, the later ones win.

    Raises:
        CorruptIndexError: It is malformed. A broker does not start then.
    """
    entries: tuple[EpochEntry, ...] = ()
    for _, entry in _leader_epochs(content):
        entries = assign(entries, entry.epoch, entry.start_offset)
    return entries


def _leader_epochs(content: str | bytes) -> Iterator[tuple[int, EpochEntry]]:
    for number, (epoch_text, offset_text) in _entries(content, fields=2):
        epoch = _number(epoch_text, number, low=0, high=2**31 - 1)
        yield number, EpochEntry(epoch, _number(offset_text, number, low=0, high=MAX_OFFSET))


def format_leader_epochs(entries: Sequence[EpochEntry]) -> bytes:
    """Build the bytes of a leader-epoch-checkpoint."""
    return _format((f"{entry.epoch} {entry.start_offset}" for entry in entries), len(entries))


def parse_partition_metadata(content: str | bytes) -> str:
    """Parse the topic id of a partition.metadata: 22 characters of unpadded base64url.

    Raises:
        CorruptIndexError: It has no valid topic id, or a version above 0.
    """
    values: dict[str, str] = {}
    for line in _text(content).split("\n"):
        if line:
            name, colon, value = line.partition(":")
            if not colon or name in values:
                raise CorruptIndexError("partition.metadata has a line that is not `name: value`")
            values[name] = value.strip()
    version, topic_id = values.get("version", ""), values.get("topic_id", "")
    if not version.isascii() or not version.isdigit():
        raise CorruptIndexError("partition.metadata states no version")
    if int(version) > 0:
        raise CorruptIndexError(f"partition.metadata states version {int(version)}, and only version 0 is known")
    try:
        raw = base64.b64decode(topic_id + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise CorruptIndexError("partition.metadata states no topic id") from None
    # An id is also a folder's name and part of keys. So only its one canonical spelling is valid.
    if len(raw) != 16 or base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=") != topic_id or not any(raw):
        raise CorruptIndexError("partition.metadata states an invalid topic id")
    return topic_id


def format_partition_metadata(topic_id: str) -> bytes:
    """Build the bytes of a partition.metadata, which ends without a newline."""
    return f"version: 0\ntopic_id: {topic_id}".encode("ascii")


def parse_meta_properties(content: str | bytes) -> dict[str, str]:
    """Parse a meta.properties as `java.util.Properties` does. Any text may be a cluster id: Kafka's tools check none.

    `cluster.id` is absent before Kafka 0.10.1.

    Raises:
        CorruptIndexError: An escape is malformed, or its version is not 0 or 1.
    """
    values: dict[str, str] = {}
    text = content if isinstance(content, str) else content.decode("latin-1")
    for line in _logical_lines(text):
        name, value = _split_property(line)
        values[name] = value
    version = values.get("version")
    if version not in ("0", "1"):
        raise CorruptIndexError("meta.properties states no version, or one newer than 1")
    return values


def missing_properties(values: Mapping[str, str]) -> list[str]:
    """Return the properties without which no broker starts, of a meta.properties that was parsed."""
    needed = ("broker.id",) if values["version"] == "0" else ("cluster.id", "node.id")
    return [name for name in needed if name not in values]


def parse_clean_shutdown(content: str | bytes) -> int | None:
    """Parse the broker's epoch of a clean-shutdown marker; None if there is none. Both mean a clean shutdown."""
    try:
        epoch = _json_object(content, "").get("brokerEpoch")
    except CorruptIndexError:
        return None
    return epoch if isinstance(epoch, int) and not isinstance(epoch, bool) else None


def parse_quorum_state(content: str | bytes) -> dict[str, object]:
    """Parse a quorum-state, by Kafka's names: leaderId, leaderEpoch, votedId and more.

    Raises:
        CorruptIndexError: Its data_version is not 0 or 1.
    """
    values = _json_object(content, "quorum-state")
    if values.get("data_version") not in (0, 1) or isinstance(values["data_version"], bool):
        raise CorruptIndexError("quorum-state states no data_version, or one newer than 1")
    return values


def _json_object(content: str | bytes, name: str) -> dict[str, object]:
    try:
        values = json.loads(_text(content))
    except (ValueError, RecursionError):
        raise CorruptIndexError(f"{name} is not JSON") from None
    if not isinstance(values, dict):
        raise CorruptIndexError(f"{name} is not a JSON object")
    return values


def _text(content: str | bytes) -> str:
    if isinstance(content, str):
        return content
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise CorruptIndexError("not a text file") from None


def _entries(content: str | bytes, *, fields: int) -> Iterable[tuple[int, list[str]]]:
    """(line number, fields) of each entry, after a check of version and count."""
    text = _text(content)
    if not text:
        return []
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if len(lines) < 2 or lines[0].strip() != "0":
        raise CorruptIndexError("checkpoint does not begin with version 0 and a count")
    count = _number(lines[1].strip(), 2, low=0, high=2**31 - 1)
    if count != len(lines) - 2:
        raise CorruptIndexError(f"checkpoint states {count} entries and contains {len(lines) - 2}")
    entries = [(number, line.split()) for number, line in enumerate(lines[2:], start=3)]
    for number, found in entries:
        if len(found) != fields:
            raise CorruptIndexError(f"checkpoint line {number} has {len(found)} fields, expected {fields}")
    return entries


def _number(text: str, line: int, *, low: int, high: int) -> int:
    if _NUMBER.fullmatch(text) is None or not low <= int(text) <= high:
        raise CorruptIndexError(f"checkpoint line {line} needs a number from {low} to {high} and has none")
    return int(text)


def _format(lines: Iterable[str], count: int) -> bytes:
    return "".join(f"{line}\n" for line in ("0", str(count), *lines)).encode("ascii")


def _logical_lines(text: str) -> Iterable[str]:
    """Lines of a Java properties file: without comments and blanks, joined after a lone backslash at the end."""
    begun: str | None = None
    for each in re.split(r"\r\n|\r|\n", re.sub(r"(\r\n|\r|\n)\Z", "", text)):
        line = (begun or "") + each.lstrip(" \t\f")
        is_comment = not begun and line.startswith(("#", "!"))
        begun = None
        if is_comment:
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            begun = line[:-1]
        elif line:
            yield line
    if begun is not None:
        yield begun


def _split_property(line: str) -> tuple[str, str]:
    match = re.match(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", line, re.DOTALL)
    if match is None:
        raise CorruptIndexError("meta.properties has a line that is not a property")
    return _unescape(match[1]), _unescape(match[2])


def _unescape(text: str) -> str:
    def replacement(match: re.Match[str]) -> str:
        if match[1] is not None:
            return chr(int(match[1], 16))
        if match[2] == "u":  # no Kafka starts with it
            raise CorruptIndexError("meta.properties has an escape \\u without four hexadecimal digits")
        return _PLAIN_ESCAPES.get(match[2], match[2])

    return without_half_pairs(re.sub(r"\\(?:u([0-9A-Fa-f]{4})|(.))", replacement, text, flags=re.DOTALL))
