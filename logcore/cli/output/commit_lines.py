"""Records of `__consumer_offsets` as decoded lines, many at once: the fast way of `dump --decode`.

Commits of the usual form are columns (`logcore.topics.commit_columns`), and lines are joined from columns of texts.
Every other record is a line of `decoded_lines`, which is the specification.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logcore.cli.output.decoded_lines import decoded_fields, decoded_text, shown_time, unread_findings
from logcore.cli.output.record_lines import json_line
from logcore.columns.checking.chunks import processors
from logcore.columns.decoding.line_forms import LineForm, LineFormat
from logcore.library.shown_segments import ShownSegment, columns_of
from logcore.logs.model.findings import Finding
from logcore.logs.model.sources import SourceLog
from logcore.messages.kafka_json import uuid_text
from logcore.messages.layout import ZERO_UUID
from logcore.reading.internal_topics.record_blocks import bytes_of
from logcore.reading.notes import Notes
from logcore.records.model import TimestampType
from logcore.topics.commit_columns import FIRST_WITH_EPOCH, CommitColumns, commit_columns
from logcore.topics.decoded_records import decode_record
from logcore.topics.internal_topics import InternalTopic

_COLUMNS = ("offset", "timestampType", "key", "value", "timestamp_ms", "leader_epoch")
_UUID_BYTES = 16
_LAST_TIME_MS = 253_402_300_799_999
"""Later times are numbers: a time has four digits for the year."""

Texts = Any
"""A column of texts, or one text for all rows."""


def write_commit_lines(
    segments: Iterable[ShownSegment], notes: Notes, write: Callable[[memoryview], object], form: LineForm
) -> None:
    """Write the wanted records of segments as lines, in order, and report errors of the segments.

    Args:
        segments: Segments of logs of `__consumer_offsets`. Control records are not wanted.
        notes: Gets the findings.
        write: Gets the lines.
        form: Text or JSON.
    """
    waiting: deque[Future[tuple[memoryview, list[Finding]]]] = deque()

    def write_first() -> None:
        lines, findings = waiting.popleft().result()
        for finding in findings:
            notes.say(finding)
        write(lines)

    with ThreadPoolExecutor(processors()) as pool:
        for shows in segments:
            maker = _LineMaker(shows.log, form)
            shows = replace(shows, wanted=replace(shows.wanted, columns=_COLUMNS))
            for rows in columns_of(shows, notes):
                waiting.append(pool.submit(maker.lines, rows))
                while len(waiting) > 2 * processors():
                    write_first()
        while waiting:
            write_first()


@dataclass(frozen=True, slots=True)
class _LineMaker:
    """The lines of a log."""

    log: SourceLog
    form: LineForm

    def lines(self, rows: pa.RecordBatch) -> tuple[memoryview, list[Finding]]:
        """The lines of some rows as bytes, and what could not be read."""
        keys, values = rows.column("key"), rows.column("value")
        columns = commit_columns(keys, values, oldest_version=FIRST_WITH_EPOCH, with_deletions=False)
        findings: list[Finding] = []
        made = self._commits(rows, columns)
        if not columns.is_read.all():
            others = self._others(rows, np.flatnonzero(~columns.is_read), findings)
            order = np.empty(rows.num_rows, np.int64)
            order[columns.is_read] = np.arange(len(made))
            order[~columns.is_read] = len(made) + np.arange(len(others))
            made = pa.concat_arrays([made, others]).take(pa.array(order, pa.int64()))
        _, ends, content = made.buffers()
        assert ends is not None
        assert content is not None
        first, last = np.frombuffer(memoryview(ends), np.int32)[[made.offset, made.offset + len(made)]].tolist()
        return memoryview(content)[first:last], findings

    def _others(self, rows: pa.RecordBatch, places: Any, findings: list[Finding]) -> pa.Array[Any]:
        """Lines of records that are no usual commits."""
        chosen = rows.take(pa.array(places, pa.int64()))
        columns = (chosen.column(name).to_pylist() for name in ("offset", "timestamp_ms", "timestampType"))
        epochs = chosen.column("leader_epoch").to_pylist()
        parts = bytes_of(chosen.column("key")), bytes_of(chosen.column("value"))
        lines = []
        for offset, time_ms, kind, epoch, key, value in zip(*columns, epochs, *parts, strict=True):
            decoded = decode_record(InternalTopic.CONSUMER_OFFSETS, key, value)
            findings += unread_findings(self.log, offset, decoded)
            fields = decoded_fields(self.log, offset, time_ms, TimestampType(kind), decoded, epoch)
            lines.append(json_line(fields) if self._is_json else decoded_text(self.log, fields))
        return pa.array(lines, pa.string())

    def _commits(self, rows: pa.RecordBatch, columns: CommitColumns) -> pa.Array[Any]:
        if not len(columns.offset):
            return pa.array([], pa.string())
        topic_ids = _topic_ids(columns, rows.column("value"))
        if not columns.is_read.all():
            rows = rows.filter(pa.array(columns.is_read))
        comma, colon = (",", ":") if self._is_json else (", ", ": ")
        value = '}},"value":' if self._is_json else "}}  value "

        def group(name: str) -> str:
            key = f'{{"type"{colon}"1"{comma}"data"{colon}{{"group"{colon}'
            return f'{key}{_json(name)}{comma}"topic"{colon}'

        def version(number: int) -> str:
            return f'{value}{{"version"{colon}"{number}"{comma}"data"{colon}{{"offset"{colon}'

        pieces: list[Texts] = [
            *self._places(rows),
            _spelled(columns.group, group),
            _spelled(columns.topic, lambda name: f'{_json(name)}{comma}"partition"{colon}'),
            pa.array(columns.partition).cast(pa.string()),
            _spelled(pa.array(columns.version), version),
            pa.array(columns.offset).cast(pa.string()),
            _spelled(
                pa.array(columns.leader_epoch),
                lambda epoch: f'{comma}"leaderEpoch"{colon}{epoch}{comma}"metadata"{colon}',
            ),
            _spelled(columns.metadata, lambda text: f'{_json(text)}{comma}"commitTimestamp"{colon}'),
            pa.array(columns.commit_time_ms).cast(pa.string()),
            _spelled(topic_ids, lambda content: _topic_id(content, comma, colon)),
            self._ends(rows),
        ]
        lines: pa.Array[Any] = pc.binary_join_element_wise(*pieces, "")
        return lines

    @property
    def _is_json(self) -> bool:
        return self.form.format is LineFormat.JSONL

    def _places(self, rows: pa.RecordBatch) -> list[Texts]:
        """What is before the key."""
        offsets, times = rows.column("offset").cast(pa.string()), rows.column("timestamp_ms")
        place = self.log.topic_partition
        if self._is_json:
            topic = json.dumps(place.topic, ensure_ascii=False)
            kinds = _spelled(
                rows.column("timestampType"),
                lambda kind: f',"timestamp_type":"{TimestampType(kind).kafka_name}","key":',
            )
            before = f'{{"topic":{topic},"partition":{place.partition},"offset":'
            return [before, offsets, ',"timestamp":', times.cast(pa.string()), kinds]
        milliseconds = times.to_numpy()
        if ((milliseconds < 0) | (milliseconds > _LAST_TIME_MS)).any():
            return [f"{place} offset ", offsets, _spelled(times, lambda time_ms: f"  {shown_time(time_ms)}  key ")]
        # Texts of seconds and of milliseconds repeat, those of times may not.
        seconds = _spelled(pa.array(milliseconds // 1000), _second)
        return [
            f"{place} offset ",
            offsets,
            seconds,
            _spelled(pa.array(milliseconds % 1000), lambda part: f"{part:03d}Z  key "),
        ]

    def _ends(self, rows: pa.RecordBatch) -> Texts:
        if not self._is_json:
            return "\n"
        epochs = rows.column("leader_epoch")
        return _spelled(epochs, lambda epoch: f',"leader_epoch":{"null" if epoch is None else epoch}}}\n')


def _second(second: int) -> str:
    moment = datetime.fromtimestamp(second, UTC)
    return f"  {moment.replace(tzinfo=None).isoformat(timespec='seconds')}."


def _topic_ids(columns: CommitColumns, values: pa.Array[Any]) -> pa.Array[Any]:
    """The bytes of the topic ids; null without one."""
    has_id = columns.topic_id_at >= 0
    data = values.buffers()[2]
    assert data is not None
    content = np.frombuffer(memoryview(data), np.uint8)
    places = np.where(has_id, columns.topic_id_at, 0)[:, None] + np.arange(_UUID_BYTES)
    ids = content[np.minimum(places, len(content) - 1)]
    bits = np.packbits(has_id, bitorder="little")
    buffers: list[pa.Buffer | None] = [pa.py_buffer(bits), pa.py_buffer(ids)]  # type: ignore[arg-type]
    return pa.Array.from_buffers(pa.binary(_UUID_BYTES), len(ids), buffers)


def _topic_id(content: bytes | None, comma: str, colon: str) -> str:
    """What is after the time of a commit."""
    if content is None or UUID(bytes=content) == ZERO_UUID:
        return "}}"
    return f'{comma}"topicId"{colon}"{uuid_text(UUID(bytes=content))}"}}}}'


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _spelled(column: pa.Array[Any], spell: Callable[[Any], str]) -> Texts:
    """A column of texts: each different value is spelled once."""
    encoded = column.dictionary_encode("encode")
    texts = [spell(value) for value in encoded.dictionary.to_pylist()]
    return texts[0] if len(texts) == 1 else pa.array(texts, pa.string()).take(encoded.indices)
