"""Kafka's DumpLogSegments run over many files in one JVM, and the text it must print for what we read."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kafka import distribution

_SECONDS = 180
_COMPLAINT = re.compile(r"baseOffset: .* isvalid: false|Found \d+ invalid bytes|Mismatches in|Found timestamp mismatch")
_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


@dataclass(frozen=True, slots=True)
class Dump:
    """What the tool did with one file."""

    ended: str
    """Exit code, or the class of the exception that reached the top."""
    text: str
    """What it printed; undecodable bytes of keys and values are already replaced by the tool."""


def dump_log_segments(
    files: Sequence[Path],
    folder: Path,
    *arguments: str,
    version: str = distribution.VERSION,
    classes: Path | None = None,
) -> list[Dump]:
    """``kafka-dump-log --files FILE arguments...`` for each file; the outputs go through `folder`.

    The tool may open an index for writing: give it copies.

    :param version: of Kafka; the name of its lock. :param classes: our Java for it, with `DumpMany`.

    :raises RuntimeError: the JVM did not get through the list.
    """
    outputs = [folder / f"{number}.txt" for number in range(len(files))]
    jobs = [
        "\t".join([str(output), "--files", str(path), *arguments]) for output, path in zip(outputs, files, strict=True)
    ]
    done = subprocess.run(
        distribution.command("DumpMany", heap="512m", version=version, classes=classes),
        input="".join(f"{job}\n" for job in jobs),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    answers = done.stdout.split()
    if len(answers) != len(files):
        raise RuntimeError(f"DumpMany ended with {done.returncode} after {len(answers)} files:\n{done.stderr}")
    return [
        # bytes, so that a line end inside of a value stays what it is
        Dump(answer, output.read_bytes().decode())
        for answer, output in zip(answers, outputs, strict=True)
    ]


def expected_text(path: Path, batches: Iterable[Mapping[str, Any]], records: Mapping[int, Mapping[str, Any]]) -> str:
    """What the tool prints with ``--deep-iteration --print-data-log`` for a whole segment of format v2.

    :param batches: the segment's lines of ``loglake dump --batches``.
    :param records: by offset, lines of ``loglake dump --control`` with key, value and header values decoded to bytes.
    """
    lines = [f"Dumping {path}", f"Log starting offset: {int(path.stem)}"]
    gaps = []
    last = -1  # the tool begins there in every file, so it finds a gap before any segment but the first
    for batch in batches:
        lines.append(_batch_line(batch))
        offsets = [offset for offset in range(batch["base_offset"], batch["last_offset"] + 1) if offset in records]
        lines += [_record_line(batch, records[offset]) for offset in offsets]
        for offset in offsets:
            if offset != last + 1:
                gaps.append(f"  {last} is followed by {offset}")
            last = offset
    if gaps:
        lines += [f"Non-consecutive offsets in {path}", *gaps]
    return "\n".join(lines) + "\n"


def _batch_line(batch: Mapping[str, Any]) -> str:
    sequence = batch["base_sequence"]
    last = sequence if sequence < 0 else sequence + batch["last_offset"] - batch["base_offset"]
    horizon = batch["delete_horizon_ms"]
    fields = {
        "baseOffset": batch["base_offset"],
        "lastOffset": batch["last_offset"],
        "count": batch["record_count"],
        "baseSequence": sequence,
        "lastSequence": last,
        "producerId": batch["producer_id"],
        "producerEpoch": batch["producer_epoch"],
        "partitionLeaderEpoch": batch["leader_epoch"],
        "isTransactional": _java(batch["is_transactional"]),
        "isControl": _java(batch["is_control"]),
        "deleteHorizonMs": "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]",
        "position": batch["position"],
        batch["timestamp_type"]: batch["max_timestamp"],
        "size": batch["size"],
        "magic": batch["magic"],
        "compresscodec": batch["codec"],
        "crc": batch["crc"],
        "isvalid": _java(batch["crc_ok"]),
    }
    return " ".join(f"{name}: {value}" for name, value in fields.items())


def _record_line(batch: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    key, value = record["key"], record["value"]
    sequence = batch["base_sequence"]
    if sequence >= 0:
        sequence += record["offset"] - batch["base_offset"]
    names = ",".join(name for name, _ in record["headers"])
    text = (
        f"| offset: {record['offset']} {record['timestamp_type']}: {record['timestamp']}"
        f" keySize: {-1 if key is None else len(key)} valueSize: {-1 if value is None else len(value)}"
        f" sequence: {sequence} headerKeys: [{names}]"
    )
    if batch["is_control"]:
        epoch = int.from_bytes(value[2:6], "big", signed=True)
        return f"{text} endTxnMarker: {record['control_type']} coordinatorEpoch: {epoch}"
    if key is not None:
        text += f" key: {_as_java_decodes(key)}"
    if value is not None:
        text += f" payload: {_as_java_decodes(value)}"
    return text


def complaints(dump: Dump) -> Iterator[str]:
    """The lines in which the tool says that something is wrong with the bytes; also the exception it died of."""
    for line in dump.text.splitlines():
        if _COMPLAINT.match(line):
            yield line
    if dump.ended != "0":
        yield dump.ended


def _java(value: bool) -> str:
    return "true" if value else "false"


def _as_java_decodes(content: bytes) -> str:
    """Text of bytes that may be no UTF-8: Java replaces an encoded surrogate as one, Python byte by byte."""
    return _ENCODED_SURROGATE.sub(b"\xff", content).decode("utf-8", "replace")
