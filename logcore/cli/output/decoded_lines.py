"""Records of Kafka's own topics as lines, decoded as Kafka's tools decode them. Secrets are redacted.

    {"topic":…,"partition":…,"offset":…,"timestamp":…,"timestamp_type":…,"key":{…},"value":{…},"leader_epoch":…}

`logcore.topics.decoded_records` describes `key` and `value`. Headers are left out: these topics have none.
"""

from __future__ import annotations

import json
from typing import TextIO

from logcore.cli.output.plain_lines import PlainLines
from logcore.cli.output.record_lines import control_name, json_line
from logcore.columns.decoding.line_forms import LineForm, LineFormat
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.sources import SourceLog
from logcore.reading.read_options import Notes
from logcore.reading.segment_reading import is_read_in_bulk
from logcore.records.batch import BatchHeader
from logcore.records.model import TimestampType
from logcore.records.record import Record
from logcore.texts import json_shown, time_text
from logcore.topics.decoded_records import DecodedRecord, decode_record
from logcore.topics.internal_topics import InternalTopic, internal_topic


class DecodedLines(PlainLines):
    """Writes records of internal topics as lines, as `PlainLines` writes other records."""

    def __init__(self, out: TextIO, form: LineForm, shows_committed: bool, notes: Notes) -> None:
        super().__init__(out, form, shows_committed)
        self._notes = notes

    def _line(self, log: SourceLog, header: BatchHeader, record: Record, committed_end: int | None) -> str:
        decoded = DecodedRecord(None, None, ()) if header.is_control else self._decoded(log, record)
        epoch = None if header.partition_leader_epoch < 0 else header.partition_leader_epoch
        fields = decoded_fields(log, record.offset, record.timestamp, record.timestamp_type, decoded, epoch)
        control = control_name(header, record)
        if control is not None:
            fields["control_type"] = control
        if committed_end is not None:
            fields["committed"] = record.offset < committed_end
        return json_line(fields) if self._form.format is LineFormat.JSONL else decoded_text(log, fields)

    def _decoded(self, log: SourceLog, record: Record) -> DecodedRecord:
        topic = internal_topic(log.topic_partition.topic)
        if topic is None:
            raise ValueError(f"{log.topic_partition} is not of an internal topic")
        key, value = (None if part is None else bytes(part) for part in (record.key, record.value))
        decoded = decode_record(topic, key, value)
        self._notes.say_all(unread_findings(log, record.offset, decoded))
        return decoded


def is_long_log_of_commits(log: SourceLog) -> bool:
    """Whether `commit_lines` writes the lines of a log: it is one of `__consumer_offsets`, and not small."""
    return log.topic_partition.topic == InternalTopic.CONSUMER_OFFSETS and is_read_in_bulk(log)


def unread_findings(log: SourceLog, offset: int, decoded: DecodedRecord) -> list[Finding]:
    """Return the findings about what could not be read of a record."""
    return [
        found(
            "message-not-read",
            f"{log.topic_partition}, offset {offset}: {problem.detail}. The record is shown as bytes.",
            start_offset=offset,
            end_offset=offset + 1,
        )
        for problem in decoded.problems
    ]


def decoded_fields(
    log: SourceLog,
    offset: int,
    timestamp_ms: int,
    timestamp_type: TimestampType,
    decoded: DecodedRecord,
    leader_epoch: int | None,
) -> dict[str, object]:
    """Return a record's fields by their names in JSON, in order."""
    return {
        **log.topic_partition.columns,
        "offset": offset,
        "timestamp": timestamp_ms,
        "timestamp_type": timestamp_type.kafka_name,
        "key": decoded.key,
        "value": decoded.value,
        "leader_epoch": leader_epoch,
    }


def decoded_text(log: SourceLog, fields: dict[str, object]) -> str:
    """Return one line for a person from the fields of a record."""
    timestamp = fields["timestamp"]
    file = f" snapshot {fields['snapshot']}" if "snapshot" in fields else ""
    parts = [f"{log.topic_partition}{file} offset {fields['offset']}"]
    parts.append(shown_time(timestamp) if isinstance(timestamp, int) else "no-timestamp")
    if "control_type" in fields:
        parts.append(str(fields["control_type"]))
    parts += [f"{name} {json_shown(json.dumps(fields[name], ensure_ascii=False))}" for name in ("key", "value")]
    if "committed" in fields:
        parts.append("committed" if fields["committed"] else "tentative")
    return "  ".join(parts) + "\n"


def shown_time(timestamp_ms: int) -> str:
    """Return the time of a record as text."""
    return time_text(timestamp_ms) if timestamp_ms >= 0 else "no-timestamp"
