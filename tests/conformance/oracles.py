"""What real tools said, parsed: consumers' records, FileRecords' listings. Knows nothing of the code under test."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Consumed(NamedTuple):
    """A record as a real consumer received it. leader_epoch None: the client did not say."""

    offset: int
    timestamp: int
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int | None


def binary(text: str | None) -> bytes | None:
    """Bytes of standard base64; None stays None."""
    return None if text is None else base64.b64decode(text, validate=True)


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a `.jsonl` or `.jsonl.gz` file."""
    content = path.read_bytes()
    for line in (gzip.decompress(content) if path.suffix == ".gz" else content).splitlines():
        yield json.loads(line)


def consumed(path: Path) -> dict[str, list[Consumed]]:
    """A consumer's records by topic partition, in offset order."""
    logs: dict[str, list[Consumed]] = {}
    for line in lines(path):
        headers = tuple((name, binary(value)) for name, value in line["headers"])
        record = Consumed(
            line["offset"],
            line["timestamp"],
            line["timestamp_type"],
            binary(line["key"]),
            binary(line["value"]),
            headers,
            line["leader_epoch"],
        )
        logs.setdefault(f"{line['topic']}-{line['partition']}", []).append(record)
    return logs


class Listed(NamedTuple):
    """A segment file as Kafka's FileRecords listed it."""

    batches: list[dict[str, Any]]
    records: list[dict[str, Any]]
    file_size: int
    batches_end: int
    errors: list[dict[str, Any]]


def listing(path: Path) -> dict[tuple[str, str], Listed]:
    """Every batch and record of a listing by (directory, file), in the order of the file; bytes as bytes."""
    files: dict[tuple[str, str], Listed] = {}
    batches: list[dict[str, Any]] = []
    records: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    for line in lines(path):
        kind = line.pop("kind")
        if kind == "batch":
            batches.append(line)
        elif kind == "record":
            headers = [[name, binary(value)] for name, value in line["headers"]]
            records.append(line | {"key": binary(line["key"]), "value": binary(line["value"]), "headers": headers})
        elif kind == "end":
            place = (line["dir"], line["file"])
            files[place] = Listed(batches, records, line["file_size"], line["batches_end"], errors)
            batches, records, errors = [], [], []
        else:
            assert kind == "error"
            errors.append(line)
    assert batches == records == errors == []
    return files
