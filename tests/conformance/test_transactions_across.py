"""Transactions across partitions of real brokers: healthy ones agree, and a copy from before a marker is found."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from logcore.cli.main import main
from tests.conformance.snapshots import snapshot as named

if TYPE_CHECKING:
    from tests.conformance.conftest import Corpus

STATES = [text for state in ("complete", "ongoing", "hanging", "torn", "unknown") for text in ("--state", state)]


def across(capsys: pytest.CaptureFixture[str], directory: Path, code: int) -> list[dict[str, Any]]:
    assert main(["transactions", "--format", "jsonl", *STATES, str(directory)]) == code
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [row for row in rows if "partitions" in row]


@pytest.mark.parametrize("name", ["transactions-3.9.2/logdir", "transactions-4.4.0/logdir"])
def test_those_that_a_coordinator_calls_ongoing_are_and_all_others_are_complete(
    corpus: Corpus, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    described = json.loads(corpus.oracle(named(name), "transactions.json").read_text())
    ongoing = {entry["transactional_id"] for entry in described if entry["state"] == "Ongoing"}
    rows = across(capsys, corpus.directory(named(name)), 0)
    assert {row["transactional_id"] for row in rows if row["state"] == "ongoing"} == ongoing
    assert {row["state"] for row in rows} == {"ongoing", "complete"}


@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("compaction-3.9.2/before1", {"complete"}),
        ("compaction-3.9.2/after1", {"complete", "unknown"}),
        ("compaction-4.1.2/after1", {"complete"}),
        ("compaction-4.4.0/after1", {"complete"}),
    ],
)
def test_a_cleaned_log_of_the_coordinator_leaves_doubt_only_before_version_2(
    corpus: Corpus, name: str, states: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert {row["state"] for row in across(capsys, corpus.directory(named(name)), 0)} == states


def test_a_copy_of_a_partition_from_before_its_markers_is_torn(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two transactions had data there below offset 112, and their markers at 112 and 133."""
    directory = tmp_path / "logdir"
    shutil.copytree(corpus.directory(named("transactions-4.4.0/logdir")), directory)
    for path in (directory / "txn-c-0").glob("*.log"):
        content, at = path.read_bytes(), 0
        while at < len(content) and struct.unpack_from(">q", content, at)[0] < 112:
            at += 12 + struct.unpack_from(">i", content, at + 8)[0]
        path.write_bytes(content[:at])
    checkpoint = directory / "replication-offset-checkpoint"
    lines = ["txn-c 0 112" if line.startswith("txn-c 0 ") else line for line in checkpoint.read_text().splitlines()]
    checkpoint.write_text("\n".join(lines) + "\n")
    torn = {
        (row["transactional_id"], row["producer_id"], row["producer_epoch"], row["coordinator_state"])
        for row in across(capsys, directory, 2)
        if row["state"] == "torn"
    }
    assert torn == {("tx-B", 1, 2, "CompleteCommit"), ("tx-D", 3, 3, "CompleteAbort")}
