"""Records of `__consumer_offsets` as decoded lines, many at once: the fast way of `dump --decode`.

The kernel `commit_lines` writes commits of the usual form. Every other record is a line of `decoded_lines`. That module
is the specification.
"""

from __future__ import annotations

import base64
import ctypes
from dataclasses import replace

import numpy as np

from logcore.cli.output.bulk import LineMaker
from logcore.cli.output.decoded_lines import decoded_fields, decoded_text, unread_findings
from logcore.cli.output.record_lines import json_line
from logcore.columns.decoding.line_buffers import LineBuffers, TextPool
from logcore.columns.decoding.line_forms import LineForm, LineFormat
from logcore.columns.kernels.decoding.decoding_frames import RecordsFrame
from logcore.logs.model.findings import Finding
from logcore.logs.model.sources import SourceLog
from logcore.reading.shown_segments import ShownSegment, place_of
from logcore.records.batch import BatchHeader
from logcore.records.model import Record, TimestampType
from logcore.topics.decoded_records import decode_record
from logcore.topics.internal_topics import InternalTopic


class CommitLineMaker(LineMaker):
    """Makes decoded lines of logs of `__consumer_offsets`. Control records are not wanted."""

    def __init__(self, form: LineForm) -> None:
        super().__init__(replace(form, decoded=True))

    def buffers(self, shows: ShownSegment, pool: TextPool, left: int | None = None) -> LineBuffers:
        """Return buffers for the lines of a segment."""
        return _CommitLineBuffers(shows, pool, self.form, left)

    def line(self, buffers: LineBuffers, log: SourceLog, header: BatchHeader, record: Record) -> str:
        """Return the line of a record, and keep what could not be read of it."""
        assert isinstance(buffers, _CommitLineBuffers)
        key, value = (None if part is None else bytes(part) for part in (record.key, record.value))
        epoch = header.partition_leader_epoch
        return buffers.line(record.offset, record.timestamp, record.timestamp_type, key, value, epoch)

    def findings(self, buffers: LineBuffers) -> list[Finding]:
        """Return the findings about the lines since the last call."""
        assert isinstance(buffers, _CommitLineBuffers)
        found, buffers.findings = buffers.findings, []
        return found


class _CommitLineBuffers(LineBuffers):
    """Buffers whose lines are decoded commits."""

    def __init__(self, shows: ShownSegment, pool: TextPool, form: LineForm, left: int | None) -> None:
        super().__init__(place_of(shows.log, shows.segment), pool, form, left)
        self.findings: list[Finding] = []
        self._log = shows.log
        self._frame.as_text = form.format is LineFormat.JSONL
        self._frame.couples = self._keep(_uuid_couples())

    def line(
        self, offset: int, time_ms: int, kind: TimestampType, key: bytes | None, value: bytes | None, epoch: int
    ) -> str:
        """Return the line of a record, and keep what could not be read of it."""
        decoded = decode_record(InternalTopic.CONSUMER_OFFSETS, key, value)
        self.findings += unread_findings(self._log, offset, decoded)
        fields = decoded_fields(self._log, offset, time_ms, kind, decoded, None if epoch < 0 else epoch)
        return json_line(fields) if self._form.format is LineFormat.JSONL else decoded_text(self._log, fields)

    def _foreign(self, frame: RecordsFrame) -> list[memoryview]:
        row = self._frame.first
        key, value = (
            _bytes_at(row, *places)
            for places in (
                (frame.to_keys, frame.to_key_ends, frame.to_key_validity),
                (frame.to_values, frame.to_value_ends, frame.to_value_validity),
            )
        )
        line = self.line(
            ctypes.c_int64.from_address(frame.to_offsets + 8 * row).value,
            ctypes.c_int64.from_address(frame.to_timestamps_ms + 8 * row).value,
            TimestampType(_int32(frame.to_types, row)),
            key,
            value,
            _int32(frame.to_epochs, row),
        )
        self._frame.first = row + 1
        return [memoryview(line.encode("utf-8", "backslashreplace"))]


def _bytes_at(row: int, content: int, ends: int, validity: int) -> bytes | None:
    """A key or a value in the buffers of a record frame."""
    if not ctypes.c_uint8.from_address(validity + row // 8).value >> (row % 8) & 1:
        return None
    start, end = _int32(ends, row), _int32(ends, row + 1)
    return ctypes.string_at(content + start, end - start)


def _int32(address: int, index: int) -> int:
    return ctypes.c_int32.from_address(address + 4 * index).value


def _uuid_couples() -> np.ndarray:
    """The two characters of each 12 bits of a UUID: base64 for addresses."""
    bits = b"".join((number << 12).to_bytes(3, "big") for number in range(4096))
    return np.frombuffer(base64.urlsafe_b64encode(bits), np.uint8).reshape(4096, 4)[:, :2].copy()
