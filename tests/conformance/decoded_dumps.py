"""What Kafka's dump tool decoded of internal topics: keys and payloads by offset, as parsed JSON.

The tool of 3.9.2 prints transactions as text of its own, and every tool prints remote segments as Java's objects. Such
payloads are tuples; `as_dumped` brings what we decode into the same form. The tool of 4.4.0 prints the names of the
states of transactions, earlier ones their numbers. Numbers are what is compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logcore.records.record import Record
from logcore.segments.scanning.scan import SegmentScan
from logcore.topics.decoded_records import DecodedRecord, decode_record
from logcore.topics.internal_topics import internal_topic

_RECORD = re.compile(r"^\| offset: (\d+) .*? headerKeys: \[.*?\] (?:key: (.*?) )?payload: (.*)$")
_LEGACY_RECORD = re.compile(r"^\| offset: (\d+) .*? isValid: true crc: \d+\}? key: (.*?) payload: (.*)$")
_TOMBSTONE = re.compile(r"^\| offset: (\d+) .*? (?:headerKeys: \[.*?\]|crc: \d+\}?) key: (\{.*\})$")
_STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead")
_OLD_KEY = "transaction_metadata::transactionalId="
_OLD_VALUE = re.compile(
    r"producerId:(-?\d+),producerEpoch:(-?\d+),state=(\w+),partitions=\[(.*)\],"
    r"txnLastUpdateTimestamp=(-?\d+),txnTimeoutMs=(\d+)"
)
_SECRETS = {
    "USER_SCRAM_CREDENTIAL_RECORD": ("salt", "storedKey", "serverKey", "iterations"),
    "DELEGATION_TOKEN_RECORD": ("tokenId",),
    "REMOVE_DELEGATION_TOKEN_RECORD": ("tokenId",),
}
"""Fields that the tool prints and we do not, by type."""


@dataclass(frozen=True, slots=True)
class DecodedDump:
    """One file that the tool decoded. records: (key, payload) by offset; a tombstone's payload is None."""

    file: Path
    directory: str
    records: dict[int, tuple[Any, Any]]

    @property
    def topic(self) -> str:
        return self.directory.rpartition("-")[0]


def decoded_dumps(case: Path) -> Iterator[DecodedDump]:
    """Every decoded file of a case."""
    for path in sorted(case.glob("oracle/*/dump/__*/*.decoded.txt")):
        snapshot, directory, name = path.parts[-4], path.parts[-2], path.name.removesuffix(".decoded.txt")
        if name.endswith((".log", ".checkpoint")):
            yield DecodedDump(case / snapshot / directory / name, directory, records_of(path.read_text()))
    for path in sorted(case.glob("oracle/decoded-4.3.1.txt")):
        for block in re.split(r"(?m)^Dumping ", path.read_text())[1:]:
            place = block.partition("\n")[0]
            yield DecodedDump(case / "logdir" / place, place.partition("/")[0], records_of(block))


def our_records(dump: DecodedDump) -> Iterator[tuple[int, DecodedRecord]]:
    """Offset and content of each record of the same file, as we decode it."""
    topic = internal_topic(dump.topic)
    assert topic is not None
    found: list[Record] = []
    base_offset = 0 if dump.file.suffix == ".checkpoint" else int(dump.file.name[:20])

    def keep(header: Any, record: Record) -> None:
        if not header.is_control:
            found.append(record)

    for _ in SegmentScan(dump.file.read_bytes(), base_offset=base_offset, sealed=False, inspect=keep):
        pass
    for record in found:
        yield record.offset, decode_record(topic, record.key, record.value)


def without_secrets(payload: Any) -> Any:
    """A payload of the tool as we print it."""
    kind = payload.get("type") if isinstance(payload, dict) else None
    for name in _SECRETS.get(kind, ()):
        payload["data"][name] = "(redacted)"
    if kind == "CONFIG_RECORD" and payload["data"]["value"] is not None and "password" in payload["data"]["name"]:
        payload["data"]["value"] = "(redacted)"
    return payload


def records_of(text: str) -> dict[int, tuple[Any, Any]]:
    """Key and payload by offset, from the text of the tool."""
    found = {}
    for line in text.splitlines():
        match = _RECORD.match(line) or _LEGACY_RECORD.match(line)
        if match is not None:
            found[int(match[1])] = (_key(match[2]), _payload(match[3]))
        else:
            match = _TOMBSTONE.match(line)
            if match is not None:
                found[int(match[1])] = (_key(match[2]), None)
    return found


def _key(text: str | None) -> Any:
    if text is not None and text.startswith(_OLD_KEY):
        return {"type": "0", "data": {"transactionalId": text.removeprefix(_OLD_KEY)}}
    return None if text is None else json.loads(text)


def _payload(text: str) -> Any:
    old = _OLD_VALUE.fullmatch(text)
    if old is not None:
        partitions = sorted(part for part in old[4].split(",") if part)
        return ("old", int(old[1]), int(old[2]), _STATES.index(old[3]), partitions, int(old[5]), int(old[6]))
    if text.startswith("RemoteLogSegmentMetadata"):
        return ("remote", text)
    payload = None if text in ("<DELETE>", "null", "") else json.loads(text)
    if isinstance(payload, dict) and payload.get("data", {}).get("transactionStatus") in _STATES:
        payload["data"]["transactionStatus"] = _STATES.index(payload["data"]["transactionStatus"])
    return payload


def as_dumped(value: Any, payload: Any) -> Any:
    """A decoded value in the form of a payload of the tool."""
    if value is None or not isinstance(payload, tuple):
        return value
    if payload[0] == "old":
        return _as_old_transaction(value["data"])
    return ("remote", _as_remote_text(value, has_index_state="txnIdxEmpty=" in payload[1]))


_REMOTE_STATES = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED")


def _as_remote_text(value: dict[str, Any], *, has_index_state: bool) -> str:
    """As RemoteLogSegmentMetadata and its update print themselves. In 3.9 they say nothing of the index."""
    data = value["data"]
    segment, partition = data["remoteLogSegmentId"], data["remoteLogSegmentId"]["topicIdPartition"]
    place = f"{partition['id']}:{partition['name']}-{partition['partition']}"
    identity = f"remoteLogSegmentId=RemoteLogSegmentId{{topicIdPartition={place}, id={segment['id']}}}"
    assert data["customMetadata"] is None
    custom, state = "customMetadata=Optional.empty", f"state={_REMOTE_STATES[data['remoteLogSegmentState']]}"
    broker, event = f"brokerId={data['brokerId']}", f"eventTimestampMs={data['eventTimestampMs']}"
    if value["type"] == "REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD":
        return f"RemoteLogSegmentMetadataUpdate{{{identity}, {custom}, {state}, {event}, {broker}}}"
    offsets = f"startOffset={data['startOffset']}, endOffset={data['endOffset']}"
    epochs = ", ".join(f"{entry['leaderEpoch']}={entry['offset']}" for entry in data["segmentLeaderEpochs"])
    size = f"segmentLeaderEpochs={{{epochs}}}, segmentSizeInBytes={data['segmentSizeInBytes']}"
    index = f", txnIdxEmpty={str(data.get('txnIndexEmpty', False)).lower()}" if has_index_state else ""
    times = f"maxTimestampMs={data['maxTimestampMs']}, {event}"
    return f"RemoteLogSegmentMetadata{{{identity}, {offsets}, {broker}, {times}, {size}, {custom}, {state}{index}}}"


def _as_old_transaction(data: dict[str, Any]) -> tuple[Any, ...]:
    """Fields of a decoded value in the form that the text of 3.9.2 gives."""
    partitions = sorted(
        f"{entry['topic']}-{number}"
        for entry in data["transactionPartitions"] or ()
        for number in entry["partitionIds"]
    )
    return (
        "old",
        data["producerId"],
        data["producerEpoch"],
        data["transactionStatus"],
        partitions,
        data["transactionLastUpdateTimestampMs"],
        data["transactionTimeoutMs"],
    )
