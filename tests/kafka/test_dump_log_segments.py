"""What Kafka's own dump tool prints of segments and indexes is what we read."""

from __future__ import annotations

import base64
import re
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.command_line import dumped
from tests.kafka.conftest import Produced
from tests.kafka.dump_log_segments import dump_log_segments, expected_text

pytestmark = pytest.mark.kafka

Key = tuple[str, int, int]
"""Topic, partition, base offset of a segment."""


def segment_key(path: Path) -> Key:
    topic, _, partition = path.parent.name.rpartition("-")
    return topic, int(partition), int(path.stem)


def by_segment(lines: list[dict[str, Any]]) -> dict[Key, list[dict[str, Any]]]:
    found = defaultdict(list)
    for line in lines:
        found[line["topic"], line["partition"], line["segment"]].append(line)
    return found


@pytest.fixture(scope="module")
def copied(produced: Produced, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log directory, for a tool that may write."""
    return Path(shutil.copytree(produced.log_dir, tmp_path_factory.mktemp("copied") / "data"))


def decoded(content: str | None) -> bytes | None:
    return None if content is None else base64.b64decode(content)


@pytest.mark.long
def test_its_text_is_built_from_what_we_read(produced: Produced, copied: Path, tmp_path: Path) -> None:
    """Headers, records, sequences, transaction markers: every character of every segment."""
    batches = by_segment(dumped(tmp_path / "batches", copied, "--batches"))
    records: dict[tuple[str, int], dict[int, dict[str, Any]]] = defaultdict(dict)
    for line in dumped(tmp_path / "records", copied, "--all", "--control"):
        line |= {name: decoded(line[name]) for name in ("key", "value")}
        records[line["topic"], line["partition"]][line["offset"]] = line
    segments = [path for path in sorted(copied.glob("*/*.log")) if not path.parent.name.startswith("__")]
    assert len(segments) > 30
    dumps = dump_log_segments(segments, tmp_path, "--deep-iteration", "--print-data-log")
    for path, dump in zip(segments, dumps, strict=True):
        key = segment_key(path)
        expected = expected_text(path, batches[key], records[key[:2]])
        assert dump.ended == "0"
        if dump.text != expected:
            theirs, ours = dump.text.split("\n"), expected.split("\n")
            at = next(i for i, pair in enumerate(zip(theirs, ours, strict=False)) if pair[0] != pair[1])
            pytest.fail(
                f"{path.name} of {path.parent.name}, line {at}:\n{theirs[at][:400]!r}\n{ours[at][:400]!r}\n"
                f"{produced.settings(key[0])}"
            )


@pytest.mark.long
def test_every_index_entry_is_the_one_it_prints(copied: Path, tmp_path: Path) -> None:
    entries = by_segment(dumped(tmp_path / "indexes", copied, "--indexes"))
    indexes = sorted(copied.glob("*/*.index")) + sorted(copied.glob("*/*.timeindex"))
    compared = 0
    for path, dump in zip(indexes, dump_log_segments(indexes, tmp_path), strict=True):
        ours = entries[segment_key(path)]
        if path.suffix == ".index":
            expected = [(line["offset"], line["position"]) for line in ours if line["index"] == "offset"]
            theirs = re.findall(r"^offset: (-?\d+) position: (-?\d+)$", dump.text, re.MULTILINE)
        else:
            expected = [(line["timestamp"], line["offset"]) for line in ours if line["index"] == "time"]
            theirs = re.findall(r"^timestamp: (-?\d+) offset: (-?\d+)$", dump.text, re.MULTILINE)
        if dump.ended == "java.util.NoSuchElementException":  # the tool's answer where the log holds no batch
            assert (copied / path.with_suffix(".log")).stat().st_size == 0
            continue
        assert (path, dump.ended, [(int(a), int(b)) for a, b in theirs]) == (path, "0", expected)
        compared += len(expected)
    assert compared > 300
