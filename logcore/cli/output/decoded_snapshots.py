"""Records of snapshots of the cluster's metadata as lines, decoded as Kafka's tools decode them.

    {"topic":…,"partition":…,"snapshot":…,"offset":…,"timestamp":…,"timestamp_type":…,"key":null,"value":{…},…}

`snapshot` is the exclusive end offset of the snapshot, and `offset` is a record's place in its file. The other fields
are those of `decoded_lines`. Control records are left out. What can be read of a damaged snapshot is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from logcore.cli.output.decoded_lines import decoded_fields, decoded_text
from logcore.cli.output.record_lines import json_line
from logcore.errors import LogError
from logcore.logs.model.findings import found
from logcore.logs.model.sources import SourceLog
from logcore.reading.internal_topics.cluster_metadata import SnapshotRecords
from logcore.reading.read_options import Notes, OffsetRange
from logcore.storage.discovery import read_file, shown
from logcore.topics.decoded_records import decode_record
from logcore.topics.internal_topics import InternalTopic


def decoded_snapshot_lines(
    logs: Iterable[SourceLog], chosen: OffsetRange, notes: Notes, *, as_json: bool
) -> Iterator[str]:
    """Yield the lines of the snapshots at chosen offsets.

    Args:
        logs: Logs of `__cluster_metadata`.
        chosen: Chooses snapshots by their end offsets.
        notes: Gets the findings.
        as_json: Whether lines are JSON; else they are for people.
    """
    for log in logs:
        for end, path in log.metadata_snapshots:
            if end in chosen:
                for fields in _records(log, end, path, notes):
                    yield json_line(fields) if as_json else decoded_text(log, fields)


def _records(log: SourceLog, end: int, path: str, notes: Notes) -> Iterator[dict[str, object]]:
    try:
        content = read_file(path)
    except LogError as error:
        notes.say(found("unreadable", str(error.at(file=shown(path))), file=shown(path)))
        return
    records = SnapshotRecords(content)
    for header, record in records.read():
        if header.is_control:
            continue
        value = None if record.value is None else bytes(record.value)
        decoded = decode_record(InternalTopic.CLUSTER_METADATA, None, value)
        for problem in decoded.problems:
            message = f"{shown(path)}, offset {record.offset}: {problem.detail}. The record is shown as bytes."
            notes.say(found("message-not-read", message, file=shown(path)))
        epoch = None if header.partition_leader_epoch < 0 else header.partition_leader_epoch
        fields = decoded_fields(log, record.offset, record.timestamp, record.timestamp_type, decoded, epoch)
        place = {name: fields.pop(name) for name in ("topic", "partition")}
        yield place | {"snapshot": end} | fields
    if not records.is_whole:
        message = f"{shown(path)} is damaged or does not end with a snapshot's footer; the rest of it is shown."
        notes.say(found("snapshot-not-whole", message, file=shown(path)))
