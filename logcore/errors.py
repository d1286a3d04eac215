"""The errors that damaged or unsupported bytes can raise, as one family.

LogError
├─ CorruptRecordError     the bytes contradict themselves; `.reason` is a CorruptionReason
├─ InvalidRecordError     the bytes are valid, but a rule of the log is broken (offset order, sequence, timestamp)
├─ CorruptIndexError      a derived file (index, checkpoint, metadata text) is invalid; it can be rebuilt
├─ CorruptChunkError      a stored chunk of a remote segment does not give the segment's bytes
├─ SegmentKeyError        a private key does not decrypt the AES key of a remote segment: one of the two is another
├─ OffsetOutOfRange       a read begins at an offset that the log does not have, as a consumer's position can
└─ UnsupportedFormatError an unknown format version of a side file; batches of all formats are read

A caller's own mistake is a ValueError or TypeError and never one of these. Messages never contain keys, values or
record headers. `nearby` contains only fixed fields of a batch header or of a side file.
"""

import os
from enum import StrEnum
from typing import Self, TypedDict, Unpack

from logcore.texts import shown


class ExplainedReason(StrEnum):
    """A fixed list of reasons, each with what it means.

    Attributes:
        meaning: What it says, as a sentence.
    """

    meaning: str

    def __new__(cls, text: str, meaning: str) -> Self:
        """Create a member with its meaning."""
        reason = str.__new__(cls, text)
        reason._value_, reason.meaning = text, meaning
        return reason


class CorruptionReason(ExplainedReason):
    """Why bytes cannot be trusted. Tables store the values (`quarantine.reason`), so they must not change."""

    LENGTH = "LENGTH", "A batch's length field is below its format's minimum, or negative."
    MAGIC = "MAGIC", "A magic byte that no Kafka release has written."
    CRC = "CRC", "The checksum over the batch differs from the stored one."
    CODEC = (
        "CODEC",
        "A reserved codec number (5, 6 or 7), a codec newer than the format version, or a codec inside a codec.",
    )
    CODEC_STREAM = (
        "CODEC_STREAM",
        "The compressed stream is malformed, ends early, or is followed by bytes that Kafka takes for more of it.",
    )
    OUTPUT_CAP = "OUTPUT_CAP", "More decoded bytes or record headers than the reader's limits allow."
    COUNT = (
        "COUNT",
        "The record count or last offset delta is impossible, or differs from the records found; or a compressed "
        "message contains none.",
    )
    VARINT = "VARINT", "A variable-length integer of more than 5 (int) or 10 (long) bytes."
    RECORD_LENGTH = (
        "RECORD_LENGTH",
        "The length of a record, a message, a key or a value does not fit into the structure that contains it.",
    )
    RECORD_HEADER = "RECORD_HEADER", "A record header count or key length that is negative or does not fit."
    TRAILING_BYTES = "TRAILING_BYTES", "Bytes are left after the last counted record."
    TRUNCATED = "TRUNCATED", "The bytes end inside a structure."
    CONTROL = "CONTROL", "A control record whose key is invalid."
    ATTRIBUTES = "ATTRIBUTES", "Batch attributes that contradict each other."
    OFFSET_ORDER = (
        "OFFSET_ORDER",
        "Offsets that do not increase from batch to batch, or that lie outside their batch or segment.",
    )
    PACKED = "PACKED", "The whole file was packed, for instance by gzip."


class LogError(Exception):
    """Something is wrong with a log's bytes.

    Attributes:
        message: What is wrong, without the place.
        file: A file name for people; None if unknown, as all that follow.
        position: Bytes from the start of that file.
        offset: The base offset of the batch, or the log offset concerned.
        topic_partition: For instance `orders-0`.
        nearby: Fixed fields, at most as many bytes as a batch header; never payload.
        advice: What a person can do.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        position: int | None = None,
        offset: int | None = None,
        topic_partition: str | None = None,
        nearby: bytes | None = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.position = position
        self.offset = offset
        self.topic_partition = topic_partition
        self.nearby = nearby
        self.advice = advice

    def at(
        self,
        *,
        file: str | None = None,
        position: int | None = None,
        offset: int | None = None,
        topic_partition: str | None = None,
    ) -> Self:
        """Fill in the parts of the place that are unknown. Known parts are kept.

        Returns:
            This same error.
        """
        self.file = file if self.file is None else self.file
        self.position = position if self.position is None else self.position
        self.offset = offset if self.offset is None else self.offset
        self.topic_partition = topic_partition if self.topic_partition is None else self.topic_partition
        return self

    @property
    def place(self) -> str:
        """`orders-0, file 0…0.log, position 712, offset 40`, as far as known; empty if nothing is known."""
        parts = []
        if self.topic_partition is not None:
            parts.append(self.topic_partition)
        if self.file is not None:
            parts.append(f"file {self.file}")
        if self.position is not None:
            parts.append(f"position {self.position}")
        if self.offset is not None:
            parts.append(f"offset {self.offset}")
        return ", ".join(parts)

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}" if self.place else self.message
        if self.nearby:
            text += f" (bytes there: {self.nearby.hex()})"
        if self.advice:
            text += f" {self.advice}" if text.endswith((".", ")")) else f". {self.advice}"
        return shown(text)

    def __reduce__(self) -> tuple[object, ...]:
        # Spark workers send exceptions between processes by pickle, which would lose keyword-only arguments.
        return _rebuild, (type(self), self.message), self.__dict__.copy()


class _Place(TypedDict, total=False):
    file: str | None
    position: int | None
    offset: int | None
    topic_partition: str | None
    nearby: bytes | None
    advice: str | None


class CorruptRecordError(LogError):
    """The bytes of a batch contradict themselves."""

    def __init__(self, reason: CorruptionReason, message: str, **place: Unpack[_Place]) -> None:
        super().__init__(message, **place)
        self.reason = reason


class InvalidRecordError(LogError):
    """The bytes are valid, but they break a rule of the log."""


class CorruptIndexError(LogError):
    """A file that is derived from a log or kept beside it is damaged. Indexes can be rebuilt from their segment."""


class CorruptChunkError(LogError):
    """A stored chunk of a remote segment cannot be decrypted or decompressed, or gives another number of bytes."""


class CorruptNodeError(LogError):
    """The bytes of a snapshot or a transaction of ZooKeeper contradict themselves."""


class SegmentKeyError(LogError):
    """The private key that was given does not decrypt the AES key of a remote segment. Either may be the wrong one."""


class OffsetOutOfRange(LogError):
    """A read begins below the log start or above the log end.

    Source: Kafka's OffsetOutOfRangeException.
    """


class UnsupportedFormatError(LogError):
    """An unknown format version of a side file, or a stored format that is not Kafka's."""


def place_in_code(error: BaseException) -> str:
    """The innermost line of the code in which an error was raised, such as ` at scan.py, line 3`; empty if unknown."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    return f" at {trace.tb_frame.f_code.co_filename.rpartition(os.sep)[2]}, line {trace.tb_lineno}"


def _rebuild(kind: type[LogError], message: str) -> LogError:
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    return error
