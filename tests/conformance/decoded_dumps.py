"""What Kafka's dump tool decoded of internal topics: keys and payloads by offset, as parsed JSON.

The tool of 3.9.2 prints transactions as text of its own. It becomes the JSON that later tools print.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_RECORD = re.compile(r"^\| offset: (\d+) .*? headerKeys: \[.*?\] (?:key: (.*?) )?payload: (.*)$")
_LEGACY_RECORD = re.compile(r"^\| offset: (\d+) .*? isValid: true crc: \d+\}? key: (.*?) payload: (.*)$")
_TOMBSTONE = re.compile(r"^\| offset: (\d+) .*? (?:headerKeys: \[.*?\]|crc: \d+\}?) key: (\{.*\})$")
_STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead")
_NOT_JSON = "__remote_log_metadata"
"""The tool prints these records as Java objects, so they are not compared here."""
_OLD_KEY = "transaction_metadata::transactionalId="
_OLD_VALUE = re.compile(
    r"producerId:(-?\d+),producerEpoch:(-?\d+),state=(\w+),partitions=\[(.*)\],"
    r"txnLastUpdateTimestamp=(-?\d+),txnTimeoutMs=(\d+)"
)


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
        if directory.rpartition("-")[0] == _NOT_JSON or not name.endswith((".log", ".checkpoint")):
            continue
        yield DecodedDump(case / snapshot / directory / name, directory, _records(path.read_text()))
    for path in sorted(case.glob("oracle/decoded-4.3.1.txt")):
        for block in re.split(r"(?m)^Dumping ", path.read_text())[1:]:
            place = block.partition("\n")[0]
            yield DecodedDump(case / "logdir" / place, place.partition("/")[0], _records(block))


def _records(text: str) -> dict[int, tuple[Any, Any]]:
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
    return None if text in ("<DELETE>", "null", "") else json.loads(text)


def as_old_transaction(value: dict[str, Any]) -> tuple[Any, ...]:
    """A decoded value in the form that the text of 3.9.2 gives."""
    data = value["data"]
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
