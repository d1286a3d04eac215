"""The forms of lines that kernels write, and the constant parts of such lines.

`logcore.cli.output.record_lines` has the same forms in plain Python. It is their specification.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum

from logcore.columns.kernels.families import Work
from logcore.columns.wanted import Place

FRAGMENT_BYTES = 64
"""Distance of fragments; the kernels read that many bytes from the beginning of each."""


class LineFormat(StrEnum):
    """The formats whose lines kernels write."""

    TEXT = "text"
    JSONL = "jsonl"


@dataclass(frozen=True, slots=True)
class LineForm:
    """A format with its options.

    Attributes:
        format: The format.
        as_text: Keys and values that are UTF-8 are text. Text lines ignore it: they show what is printable.
        with_control: The types of control records are shown.
        decoded: Text and JSON: commits of offsets as Kafka's tools decode them.
    """

    format: LineFormat
    as_text: bool = False
    with_control: bool = False
    decoded: bool = False

    @property
    def work(self) -> Work:
        """The kernels that it needs."""
        return Work.WRITE_COMMITS if self.decoded else _WORKS[self.format]

    @property
    def kernel(self) -> str:
        """The name of the kernel that writes the lines."""
        return "commit_lines" if self.decoded else _KERNELS[self.format]

    @property
    def fragments(self) -> bytes:
        """The constant parts of lines, FRAGMENT_BYTES apart. Of decoded lines, each ends with its size."""
        if self.decoded:
            parts = _DECODED_JSON if self.format is LineFormat.JSONL else tuple(map(_spaced, _DECODED_JSON))
            return b"".join(each.ljust(FRAGMENT_BYTES - 1, b"\0") + bytes([len(each)]) for each in parts)
        return b"".join(each.ljust(FRAGMENT_BYTES, b"\0") for each in _FRAGMENTS[self.format])

    def prefix(self, place: Place) -> str:
        """What every line of a log has before the offset."""
        if self.format is LineFormat.JSONL:
            return f'{{"topic":{json.dumps(place.topic, ensure_ascii=False)},"partition":{place.partition},"offset":'
        return f"{place.topic}-{place.partition} offset "


_WORKS = {LineFormat.TEXT: Work.WRITE_TEXT, LineFormat.JSONL: Work.WRITE_LINES}
_KERNELS = {LineFormat.TEXT: "text_lines", LineFormat.JSONL: "lines"}
_FRAGMENTS = {
    LineFormat.TEXT: (
        b"  CreateTime",
        b"  LogAppendTime",
        b"  NoTimestampType",
        b"  no-timestamp",
        b"  key ",
        b"  value ",
        b"  headers ",
        b"  ABORT",
        b"  COMMIT",
    ),
    LineFormat.JSONL: (
        b',"timestamp":',
        b',"timestamp_type":"CreateTime","key":',
        b',"timestamp_type":"LogAppendTime","key":',
        b',"timestamp_type":"NoTimestampType","key":',
        b',"value":',
        b',"headers":[',
        b'],"leader_epoch":',
        b'_base64":',
        b',"control_type":"ABORT"',
        b',"control_type":"COMMIT"',
    ),
}

_DECODED_JSON = (
    b',"timestamp":',
    b',"timestamp_type":"CreateTime"',
    b',"timestamp_type":"LogAppendTime"',
    b"  no-timestamp",
    b',"timestamp_type":"NoTimestampType"',
    b',"key":{"type":"1","data":{"group":',
    b',"topic":',
    b',"partition":',
    b'}},"value":',
    b'{"version":"',
    b'","data":{"offset":',
    b',"leaderEpoch":',
    b',"metadata":',
    b',"commitTimestamp":',
    b',"topicId":"',
    b'"}}',
    b"}}",
    b',"leader_epoch":',
    b"}\n",
)
_TEXT_PARTS = {b',"key":': b"  key ", b'}},"value":': b"}}  value ", b"}\n": b"\n"}


def _spaced(part: bytes) -> bytes:
    """The same part in a line for people: JSON with spaces, between names of its own."""
    for before, after in _TEXT_PARTS.items():
        if part.startswith(before):
            return after + part[len(before) :].replace(b",", b", ").replace(b":", b": ")
    return part.replace(b",", b", ").replace(b":", b": ")
