"""Commits of offsets, read straight from their bytes: they are by far the most records of `__consumer_offsets`.

    key      int16 type 1, string group, string topic, int32 partition
    value    int16 version 3 or 4, int64 offset, int32 leader epoch, string metadata, int64 commit time; version 4 has a
             compact string, and ends with its tagged fields: none, or the topic id

Only commits of this form are read. Every other record, and every doubt, is left to the generic reader, which is the
specification: :func:`logcore.topics.internal_topics.record_messages`.

Source: OffsetCommitKey.json, OffsetCommitValue.json.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache

_SHORT, _INT = struct.Struct(">h"), struct.Struct(">i")
_START, _TIME = struct.Struct(">hqi"), struct.Struct(">q")
_KEY_START = _SHORT.pack(1)
_FIXED_STRINGS, _COMPACT_STRINGS = 3, 4
_LONGEST_COMPACT = 127
"""A longer compact string has a length of more than one byte."""
_NO_TAGS, _TOPIC_ID = b"\x00", b"\x01\x00\x10"
_TOPIC_ID_BYTES = len(_TOPIC_ID) + 16
_KEYS, _KEY_BYTES = 1 << 15, 1 << 10
"""Keys that are remembered, and the longest of them: most commits repeat one."""


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """A commit as its record has it; the leader epoch is -1 if there is none."""

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_time_ms: int


def read_commit(key: bytes, value: bytes) -> OffsetCommit | None:
    """Read a commit.

    Returns:
        None: the record is no commit, has another form, or is damaged.
    """
    if not key.startswith(_KEY_START):
        return None
    names = _known_names(key) if len(key) <= _KEY_BYTES else _names(key)
    if names is None or len(value) < _START.size + 1:
        return None
    version, offset, epoch = _START.unpack_from(value)
    at = _START.size
    if version == _FIXED_STRINGS:
        if len(value) < at + 2:
            return None
        (length,) = _SHORT.unpack_from(value, at)
        at, end = at + 2, len(value) - _TIME.size
    elif version == _COMPACT_STRINGS:
        length = value[at] - 1
        at += 1
        end = at + length
        tags = value[end + _TIME.size :]
        is_usual = tags == _NO_TAGS or (len(tags) == _TOPIC_ID_BYTES and tags.startswith(_TOPIC_ID))
        if length >= _LONGEST_COMPACT or not is_usual:
            return None
    else:
        return None
    if length < 0 or end != at + length:
        return None
    try:
        metadata = value[at:end].decode()
    except UnicodeDecodeError:
        return None
    return OffsetCommit(*names, offset, epoch, metadata, _TIME.unpack_from(value, end)[0])


def _names(key: bytes) -> tuple[str, str, int] | None:
    """Group, topic and partition of a key of the right type."""
    found: list[str] = []
    at = _SHORT.size
    for _ in range(2):
        if len(key) < at + _SHORT.size:
            return None
        (length,) = _SHORT.unpack_from(key, at)
        at += _SHORT.size
        if length < 0 or len(key) < at + length:
            return None
        try:
            found.append(key[at : at + length].decode())
        except UnicodeDecodeError:
            return None
        at += length
    if len(key) != at + _INT.size:
        return None
    return found[0], found[1], _INT.unpack_from(key, at)[0]


_known_names = lru_cache(maxsize=_KEYS)(_names)
