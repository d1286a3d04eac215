"""`dump --decode --snapshots` prints the records of snapshots of the cluster's metadata."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logcore.cli.main import main
from tests import handmade
from tests.metadata_log import MetadataLog, created, setting, topic_id_text

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def metadata(tmp_path: Path) -> MetadataLog:
    """Snapshots at 1 and at 3; the later one has a password."""
    log = MetadataLog(tmp_path)
    log.say(created("a"), created("b"), setting("a", "ssl.key.password", "hunter2"))
    log.snapshot(1, created("a"), time_ms=5)
    log.snapshot(3, created("a"), setting("a", "ssl.key.password", "hunter2"), created("b"), time_ms=7)
    return log


def test_each_snapshot_has_a_line_for_each_of_its_records(metadata: MetadataLog, capsys: Captured) -> None:
    assert main(["dump", "--decode", "--snapshots", "--format", "jsonl", str(metadata.path)]) == 0
    captured = capsys.readouterr()
    lines = [json.loads(line) for line in captured.out.splitlines()]
    assert lines[0] == {
        "topic": "__cluster_metadata",
        "partition": 0,
        "snapshot": 1,
        "offset": 1,
        "timestamp": 5,
        "timestamp_type": "CreateTime",
        "key": None,
        "value": {"type": "TOPIC_RECORD", "version": 0, "data": {"name": "a", "topicId": topic_id_text("a")}},
        "leader_epoch": 1,
    }
    assert [(line["snapshot"], line["offset"], line["value"]["type"]) for line in lines] == [
        (1, 1, "TOPIC_RECORD"),
        (3, 1, "TOPIC_RECORD"),
        (3, 2, "CONFIG_RECORD"),
        (3, 3, "TOPIC_RECORD"),
    ]
    assert lines[2]["value"]["data"]["value"] == "(redacted)"
    assert captured.err == ""


def test_a_line_for_people_names_the_snapshot(metadata: MetadataLog, capsys: Captured) -> None:
    assert main(["dump", "--decode", "--snapshots", "--limit", "1", str(metadata.path)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("__cluster_metadata-0 snapshot 1 offset 1  ")
    assert '"type": "TOPIC_RECORD"' in line


def test_offsets_choose_snapshots_by_their_ends(metadata: MetadataLog, capsys: Captured) -> None:
    assert main(["dump", "--decode", "--snapshots", "--offsets", "2..", "--format", "jsonl", str(metadata.path)]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["snapshot"] for line in lines} == {3}


@pytest.mark.parametrize("cut", [1, 60])
def test_of_a_snapshot_that_is_not_whole_the_rest_is_shown(metadata: MetadataLog, cut: int, capsys: Captured) -> None:
    path = metadata.path / f"{3:020d}-{1:010d}.checkpoint"
    path.write_bytes(path.read_bytes()[:-cut])
    assert main(["dump", "--decode", "--snapshots", "--format", "jsonl", str(metadata.path)]) == 2
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 4
    assert f"{path.name} is damaged or does not end with a snapshot's footer" in captured.err


def test_a_record_that_cannot_be_read_is_reported_with_its_snapshot(metadata: MetadataLog, capsys: Captured) -> None:
    metadata.snapshot(1, (None, b"\1\2\x63"), created("c"))
    assert main(["dump", "--decode", "--snapshots", "--offsets", "..2", "--format", "jsonl", str(metadata.path)]) == 1
    captured = capsys.readouterr()
    first, second = map(json.loads, captured.out.splitlines())
    assert first["value"]["unread"]["reason"] == "UNKNOWN_VERSION"
    assert second["value"]["data"]["name"] == "c"
    assert f"{1:020d}-{1:010d}.checkpoint, offset 1: TopicRecord has versions" in captured.err


def test_a_snapshot_that_cannot_be_opened_is_reported_and_the_others_are_shown(
    metadata: MetadataLog, capsys: Captured
) -> None:
    path = metadata.path / f"{1:020d}-{1:010d}.checkpoint"
    path.unlink()
    path.symlink_to(path)
    assert main(["dump", "--decode", "--snapshots", "--format", "jsonl", str(metadata.path)]) == 3
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_a_directory_without_the_metadata_is_reported(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020d}.log").write_bytes(handmade.simple_batch(0, [(b"k", b"v")]))
    assert main(["dump", "--decode", "--snapshots", str(tmp_path / "orders-0")]) == 1
    assert "None of the 1 chosen logs is of the topic __cluster_metadata." in capsys.readouterr().err


@pytest.mark.parametrize("other", [["--indexes"], ["--checkpoints"], ["--snapshots", "--text"]])
def test_other_files_are_not_decoded(metadata: MetadataLog, other: list[str]) -> None:
    assert main(["dump", "--decode", *other, str(metadata.path)]) == 64
