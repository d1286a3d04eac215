"""Records of Kafka's own topics as lines, decoded as Kafka's tools decode them. Secrets are redacted.

    {"topic":…,"partition":…,"offset":…,"timestamp":…,"timestamp_type":…,"key":{…},"value":{…},"leader_epoch":…}

`logcore.topics.decoded_records` describes `key` and `value`. Headers are left out: these topics have none.
"""

from __future__ import annotations

import json
from typing import TextIO

from logcore.cli.output.plain_lines import PlainLines
from logcore.cli.output.record_lines import control_name, json_line, time_text
from logcore.columns.decoding.line_forms import LineForm, LineFormat
from logcore.logs.model.findings import found
from logcore.logs.model.sources import SourceLog
from logcore.reading.notes import Notes
from logcore.records.batch import BatchHeader
from logcore.records.record import Record
from logcore.topics.decoded_records import DecodedRecord, decode_record
from logcore.topics.internal_topics import internal_topic


class DecodedLines(PlainLines):
    """Writes records of internal topics as lines, as `PlainLines` writes other records."""

    def __init__(self, out: TextIO, form: LineForm, shows_committed: bool, notes: Notes) -> None:
        super().__init__(out, form, shows_committed)
        self._notes = notes

    def _line(self, log: SourceLog, header: BatchHeader, record: Record, committed_end: int | None) -> str:
        decoded = DecodedRecord(None, None, ()) if header.is_control else self._decoded(log, record)
        fields: dict[str, object] = {
            "topic": log.topic_partition.topic,
            "partition": log.topic_partition.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestamp_type": record.timestamp_type.kafka_name,
            "key": decoded.key,
            "value": decoded.value,
            "leader_epoch": None if header.partition_leader_epoch < 0 else header.partition_leader_epoch,
        }
        control = control_name(header, record)
        if control is not None:
            fields["control_type"] = control
        if committed_end is not None:
            fields["committed"] = record.offset < committed_end
        return json_line(fields) if self._form.format is LineFormat.JSONL else _text(log, fields)

    def _decoded(self, log: SourceLog, record: Record) -> DecodedRecord:
        topic = internal_topic(log.topic_partition.topic)
        if topic is None:
            raise ValueError(f"{log.topic_partition} is not of an internal topic")
        key, value = (None if part is None else bytes(part) for part in (record.key, record.value))
        decoded = decode_record(topic, key, value)
        for problem in decoded.problems:
            message = f"{log.topic_partition}, offset {record.offset}: {problem.detail}. The record is shown as bytes."
            end = record.offset + 1
            self._notes.say(found("message-not-read", message, start_offset=record.offset, end_offset=end))
        return decoded


def _text(log: SourceLog, fields: dict[str, object]) -> str:
    timestamp = fields["timestamp"]
    parts = [f"{log.topic_partition} offset {fields['offset']}"]
    parts.append(time_text(timestamp) if isinstance(timestamp, int) and timestamp >= 0 else "no-timestamp")
    if "control_type" in fields:
        parts.append(str(fields["control_type"]))
    parts += [f"{name} {json.dumps(fields[name], ensure_ascii=False)}" for name in ("key", "value")]
    if "committed" in fields:
        parts.append("committed" if fields["committed"] else "tentative")
    return "  ".join(parts) + "\n"
