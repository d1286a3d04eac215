"""Commits of offsets as Arrow columns, read from the bytes of many records at once.

    key      int16 type 1, string group, string topic, int32 partition
    value    int16 version, int64 offset, int32 leader epoch, string metadata, int64 commit time, rest
    version  0, 2: no leader epoch, no rest · 1: no leader epoch, int64 expire time · 3: no rest
             4: compact string; the rest is the tagged fields: none, or the topic id

Only records of this form are read, and only if their texts are ASCII. Every other record, and every doubt, is left to
the generic reader: `CommitColumns.is_read` says which rows were read.

Source: OffsetCommitKey.json, OffsetCommitValue.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_COMPACT_VERSION, _FIRST_WITH_EPOCH, _WITH_EXPIRE_TIME = 4, 3, 1
_KEY_TYPE, _TEXT_AT = 1, 4
_LEAST_KEY, _LEAST_VALUE = 10, 20
"""Bytes without texts."""
_TIME_BYTES = 8
_LONGEST_COMPACT = 127
"""A longer compact string has a length of more than one byte."""
_TOPIC_ID_BYTES = 19
"""Tagged fields with the topic id only: their number 1, the tag and the size, the id."""
_TOPIC_ID_TAG = 0x0010
_HEAD = np.dtype(
    {
        "names": ["version", "offset", "epoch", "old_length", "compact_length", "length"],
        "formats": [">i2", ">i8", ">i4", ">i2", ">u1", ">i2"],
        "offsets": [0, 2, 10, 10, 14, 14],
        "itemsize": 16,
    }
)
"""The beginning of a value. The place of the length depends on the version."""
_KEY_HEAD = np.dtype([("type", ">i2"), ("group", ">i2")])

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CommitColumns:
    """Commits. All columns but the first are those of the rows that were read.

    Attributes:
        is_read: Of each record: whether it was read.
        is_deleted: Whether a record deletes an offset. Then the columns of the value have no meaning.
        group: Groups.
        topic: Topics.
        partition: Partitions.
        offset: Committed offsets.
        leader_epoch: Leader epochs; -1 without one.
        metadata: Texts of the committers.
        commit_time_ms: Times of the commits in epoch milliseconds.
    """

    is_read: Flags
    is_deleted: Flags
    group: pa.Array[Any]
    topic: pa.Array[Any]
    partition: Numbers
    offset: Numbers
    leader_epoch: Numbers
    metadata: pa.Array[Any]
    commit_time_ms: Numbers


def commit_columns(keys: pa.Array[Any], values: pa.Array[Any]) -> CommitColumns:
    """Read the commits among records.

    Args:
        keys: Keys of the records, of Arrow's type binary.
        values: As many values.
    """
    key, value = _Rows.of(keys), _Rows.of(values)
    is_deleted = ~value.is_there
    fits = key.is_there & (key.sizes >= _LEAST_KEY) & (is_deleted | (value.sizes >= _LEAST_VALUE))
    of_key = key.part(0, _KEY_HEAD)
    group_size = of_key["group"].astype(np.int64)
    fits &= (of_key["type"] == _KEY_TYPE) & (group_size >= 0) & (group_size <= key.sizes - _LEAST_KEY)
    topic_size = key.part(np.where(fits, _TEXT_AT + group_size, 0), ">i2").astype(np.int64)
    fits &= (topic_size >= 0) & (key.sizes == _LEAST_KEY + group_size + topic_size)

    head = value.part(0, _HEAD)
    version = head["version"].astype(np.int64)
    is_compact, is_old = version == _COMPACT_VERSION, version < _FIRST_WITH_EPOCH
    size = np.where(is_compact, head["compact_length"].astype(np.int64) - 1, head["length"])
    size = np.where(is_old, head["old_length"], size)
    text_at = np.where(is_compact, 15, np.where(is_old, 12, 16))
    rest_at = text_at + size + _TIME_BYTES
    rest = value.sizes - rest_at
    has_topic_id = is_compact & (rest == _TOPIC_ID_BYTES)
    is_whole = (size >= 0) & (version >= 0) & (version <= _COMPACT_VERSION)
    is_whole &= np.where(is_compact, (rest == 1) | has_topic_id, rest == np.where(version == _WITH_EXPIRE_TIME, 8, 0))
    is_whole &= ~is_compact | (size < _LONGEST_COMPACT)
    fits &= is_deleted | is_whole
    tags_at = np.where(fits & is_compact, rest_at, 0)
    is_topic_id = (value.part(tags_at, ">u1") == 1) & (value.part(tags_at + 1, ">u2") == _TOPIC_ID_TAG)
    is_usual = np.where(has_topic_id, is_topic_id, value.part(tags_at, ">u1") == 0)
    fits &= is_deleted | ~is_compact | is_usual

    read = np.flatnonzero(fits)
    size, rest_at = np.where(is_deleted, 0, size), np.where(is_deleted, _TIME_BYTES, rest_at)

    def texts_of(rows: Numbers) -> tuple[_Texts, _Texts, _Texts]:
        of_keys, of_values, group, topic = key.rows(rows), value.rows(rows), group_size[rows], topic_size[rows]
        at = of_keys.starts + _TEXT_AT
        metadata = _Texts.of(value.data, of_values.starts + np.where(is_deleted[rows], 0, text_at[rows]), size[rows])
        return _Texts.of(key.data, at, group), _Texts.of(key.data, at + 2 + group, topic), metadata

    texts = texts_of(read)
    is_ascii = texts[0].is_ascii & texts[1].is_ascii & texts[2].is_ascii
    if not is_ascii.all():
        read = read[is_ascii]
        texts = texts_of(read)
    is_read = np.zeros(len(keys), bool)
    is_read[read] = True
    key, value = key.rows(read), value.rows(read)
    rest_at, partition_at = rest_at[read], _TEXT_AT + 2 + group_size[read] + topic_size[read]
    return CommitColumns(
        is_read,
        is_deleted[read],
        texts[0].column,
        texts[1].column,
        key.part(partition_at, ">i4").astype(np.int64),
        head["offset"][read].astype(np.int64),
        np.where(is_old[read], -1, head["epoch"][read]).astype(np.int64),
        texts[2].column,
        value.part(rest_at - _TIME_BYTES, ">i8").astype(np.int64),
    )


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of bytes: all bytes of a column, and where each row is in them."""

    data: npt.NDArray[np.uint8]
    starts: Numbers
    sizes: Numbers
    is_there: Flags

    @classmethod
    def of(cls, column: pa.Array[Any]) -> _Rows:
        """The rows of a column."""
        _, ends, data = column.buffers()
        count = len(column)
        bounds = np.zeros(1, np.int64)
        if count and ends is not None:
            bounds = np.frombuffer(memoryview(ends), np.int32)[column.offset : column.offset + count + 1].astype(
                np.int64
            )
        content = np.frombuffer(memoryview(data) if data is not None and data.size else b"", np.uint8)
        if len(content) < _HEAD.itemsize:
            content = np.append(content, np.zeros(_HEAD.itemsize, np.uint8))
        return cls(content, bounds[:-1], np.diff(bounds), column.is_valid().to_numpy(zero_copy_only=False))

    def rows(self, chosen: Numbers) -> _Rows:
        """Some of the rows."""
        return _Rows(self.data, self.starts[chosen], self.sizes[chosen], self.is_there[chosen])

    def part(self, at: Numbers | int, kind: np.dtype[Any] | str) -> npt.NDArray[Any]:
        """What is at a place of each row. Places that reach beyond the end of all bytes give anything."""
        kind = np.dtype(kind)
        everywhere = np.ndarray((len(self.data) - kind.itemsize + 1,), kind, self.data, strides=(1,))
        parts: npt.NDArray[Any] = everywhere[np.minimum(self.starts + at, len(everywhere) - 1)]
        return parts


@dataclass(frozen=True, slots=True)
class _Texts:
    """A column of texts, and which of them are ASCII."""

    column: pa.Array[Any]
    is_ascii: Flags

    @classmethod
    def of(cls, data: npt.NDArray[np.uint8], starts: Numbers, sizes: Numbers) -> _Texts:
        """The texts at some places of bytes."""
        ends = np.append(0, np.cumsum(sizes))
        content = data[np.repeat(starts - ends[:-1], sizes) + np.arange(ends[-1])]
        is_ascii = np.ones(len(sizes), bool)
        high = content >= 0x80
        if high.any():
            before = np.append(0, np.cumsum(high))
            is_ascii = before[ends[1:]] == before[ends[:-1]]
        bounds = pa.py_buffer(ends.astype(np.int32))  # type: ignore[arg-type]
        buffers = [None, bounds, pa.py_buffer(content)]
        return cls(pa.Array.from_buffers(pa.string(), len(sizes), buffers, 0), is_ascii)
