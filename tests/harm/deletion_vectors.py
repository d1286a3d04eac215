"""Rows of a Delta table that deletion vectors hide, as another engine does it: packed by hand after the protocol.

A vector of a few rows lies in the commit itself (storage type `i`): a bitmap of row numbers in Roaring's portable
format, after Delta's magic number, in Z85.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_MAGIC = 1681511377
_COOKIE_WITHOUT_RUNS = 12346


def z85(data: bytes) -> str:
    """ZeroMQ's base 85 of bytes whose number is a multiple of four."""
    out = ""
    for (number,) in struct.iter_unpack(">I", data):
        digits = []
        for _ in range(5):
            number, digit = divmod(number, 85)
            digits.append(_Z85[digit])
        out += "".join(reversed(digits))
    return out


def bitmap(rows: Sequence[int]) -> bytes:
    """A RoaringBitmapArray of row numbers below 65,536."""
    ordered = sorted(set(rows))
    container = struct.pack("<IIHHI", _COOKIE_WITHOUT_RUNS, 1, 0, len(ordered) - 1, 16)
    container += struct.pack(f"<{len(ordered)}H", *ordered)
    return struct.pack("<IQI", _MAGIC, 1, 0) + container


def descriptor(rows: Sequence[int]) -> dict[str, Any]:
    """The vector that hides these rows of a file."""
    data = bitmap(rows)
    data += bytes(-len(data) % 4)
    return {
        "storageType": "i",
        "pathOrInlineDv": z85(data),
        "sizeInBytes": len(data),
        "cardinality": len(set(rows)),
    }


def actions(table: Path) -> tuple[int, dict[str, dict[str, Any]], dict[str, Any]]:
    """Version, live add actions by path, and the newest metadata of a table whose whole log is kept."""
    adds: dict[str, dict[str, Any]] = {}
    metadata: dict[str, Any] = {}
    commits = sorted((table / "_delta_log").glob("*.json"))
    for commit in commits:
        for line in commit.read_text().splitlines():
            action = json.loads(line)
            if "add" in action:
                adds[action["add"]["path"]] = action["add"]
            elif "remove" in action:
                adds.pop(action["remove"]["path"], None)
            metadata = action.get("metaData", metadata)
    return int(commits[-1].stem), adds, metadata


def hide(table: Path, rows: Mapping[str, Sequence[int]]) -> None:
    """Commit that hides rows, by file as the log names it and by their numbers in it, and enables the feature."""
    version, adds, metadata = actions(table)
    feature = ["deletionVectors"]
    protocol = DeltaTable(str(table)).protocol()
    writers = sorted({*feature, *(protocol.writer_features or ()), "appendOnly", "invariants"})
    settings = metadata["configuration"] | {"delta.enableDeletionVectors": "true"}
    lines: list[dict[str, Any]] = [
        {"commitInfo": {"timestamp": 1_700_000_000_000, "operation": "DELETE", "engineInfo": "Apache-Spark/4.2.0"}},
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": feature,
                "writerFeatures": writers,
            }
        },
        {"metaData": metadata | {"configuration": settings}},
    ]
    for path, hidden in rows.items():
        add = adds[path]
        lines.append({"remove": {"path": path, "deletionTimestamp": 1_700_000_000_000, "dataChange": True}})
        lines.append({"add": add | {"deletionVector": descriptor(hidden), "dataChange": True}})
    text = "".join(json.dumps(line) + "\n" for line in lines)
    aside = table / "_delta_log" / f".{uuid.uuid4().hex}"
    aside.write_text(text)
    aside.rename(table / "_delta_log" / f"{version + 1:020d}.json")
