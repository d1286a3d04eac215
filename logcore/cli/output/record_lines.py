"""Records as lines: JSON in a fixed form, and text for people.

    {"topic":…,"partition":…,"offset":…,"timestamp":…,"timestamp_type":…,"key":…,"value":…,"headers":[[…,…]],"leader_epoch":…}

Bytes are standard base64, absent bytes null. With `as_text`, keys and values that are UTF-8 are strings; others are
base64 under `key_base64` and `value_base64`. If a header name of a record is not UTF-8, its text is not the stored
bytes: `header_keys_raw` has the names of all headers of the record in base64. The line of a control record ends with
its `control_type`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

from logcore.columns.decoding.line_forms import LineForm, LineFormat
from logcore.errors import CorruptRecordError
from logcore.records.batch import BatchHeader
from logcore.records.control import ControlType, control_type
from logcore.records.record import Record
from logcore.segments.filenames import TopicPartition
from logcore.texts import java_text, json_shown, shown, time_text, utf8_text


def json_line(fields: Mapping[str, object]) -> str:
    """Return one line of JSON, with keys in the mapping's order. What a terminal obeys is escaped."""
    return json_shown(json.dumps(fields, ensure_ascii=False, separators=(",", ":"))) + "\n"


def record_fields(
    log: TopicPartition, record: Record, leader_epoch: int, control_type: str | None, as_text: bool
) -> dict[str, object]:
    """Return a record's fields by their names in JSON, in order."""
    fields: dict[str, object] = {
        **log.columns,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": record.timestamp_type.kafka_name,
    }
    for name, content in (("key", record.key), ("value", record.value)):
        text = utf8_text(content) if as_text else None
        if text is not None:
            fields[name] = text
        elif as_text and content is not None:
            fields[f"{name}_base64"] = base64_text(content)
        else:
            fields[name] = base64_text(content)
    fields["headers"] = [[java_text(name), base64_text(content)] for name, content in record.headers]
    fields["leader_epoch"] = None if leader_epoch < 0 else leader_epoch
    if any(utf8_text(name) is None for name, _ in record.headers):
        fields["header_keys_raw"] = [base64_text(name) for name, _ in record.headers]
    if control_type is not None:
        fields["control_type"] = control_type
    return fields


def text_line(log: TopicPartition, record: Record, control_type: str | None) -> str:
    """Return one line for a person: printable UTF-8 in quotes, all other bytes in hex."""
    parts = [f"{log} offset {record.offset}", _time(record.timestamp), record.timestamp_type.kafka_name]
    if control_type is not None:
        parts.append(control_type)
    parts += [f"key {_readable(record.key)}", f"value {_readable(record.value)}"]
    if record.headers:
        parts.append("headers " + " ".join(f"{_readable(name)}={_readable(value)}" for name, value in record.headers))
    return "  ".join(parts) + "\n"


def fields_line(fields: Mapping[str, object]) -> str:
    """Return one line for a person: the fields that are not null, each with its name. `committed` is a word."""
    shown = {name: value for name, value in fields.items() if value is not None}
    committed = shown.pop("committed", None)
    parts = [f"{name} {value_text(value)}" for name, value in shown.items()]
    if committed is not None:
        parts.append(committed_word(committed is True))
    return "  ".join(parts) + "\n"


def value_text(value: object) -> str:
    """Return a value for a person: `true`, `1,2`, `name=value`; two quotes for empty text, `-` for nothing else."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return " ".join(f"{shown(str(name))}={value_text(each)}" for name, each in value.items()) or "-"
    if isinstance(value, list):
        return ",".join(map(value_text, value)) or "-"
    return "-" if value is None else shown(str(value)) or '""'


def control_name(header: BatchHeader, record: Record) -> str | None:
    """Return the type of a control record; None for any other record."""
    if not header.is_control:
        return None
    try:
        return str(control_type(record.key))
    except CorruptRecordError:
        return str(ControlType.UNKNOWN)


def line_of(form: LineForm, log: TopicPartition, header: BatchHeader, record: Record) -> str:
    """Return a record of a batch as one line of a form."""
    control = control_name(header, record) if form.with_control else None
    if form.format is LineFormat.TEXT:
        return text_line(log, record, control)
    fields = record_fields(log, record, header.partition_leader_epoch, control, form.as_text)
    return json_line(fields)


def _time(timestamp_ms: int) -> str:
    return "no-timestamp" if timestamp_ms == -1 else time_text(timestamp_ms)


def base64_text(content: bytes | None) -> str | None:
    """Return bytes in standard base64."""
    return None if content is None else base64.b64encode(content).decode("ascii")


def _readable(content: bytes | None) -> str:
    if content is None:
        return "null"
    text = utf8_text(content)
    return "0x" + content.hex() if text is None or not text.isprintable() else json.dumps(text, ensure_ascii=False)


def committed_word(is_committed: bool) -> str:
    """Return the word for people that describes a line of KRaft's metadata log."""
    return "committed" if is_committed else "tentative"
