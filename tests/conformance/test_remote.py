"""Tiered cases: the remote segments that real brokers wrote, and what is said when objects or records are missing."""

from __future__ import annotations

import base64
import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from logcore.cli.main import main
from tests.conformance.conftest import Corpus
from tests.conformance.snapshots import SNAPSHOTS, Snapshot

TIERED = [snapshot for snapshot in SNAPSHOTS if snapshot.case.startswith("tiered-") and snapshot.name == "logdir"]


@pytest.fixture(params=TIERED, ids=str)
def case(request: pytest.FixtureRequest, corpus: Corpus, tmp_path: Path) -> tuple[Path, Snapshot]:
    """A copy of the case that the test may change."""
    snapshot: Snapshot = request.param
    shutil.copytree(corpus.case(snapshot), tmp_path / "case", symlinks=True)
    return tmp_path / "case", snapshot


def said(case: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[list[dict[str, Any]], str, int]:
    """The lines, what is on stderr, and the exit code."""
    command = ["remote", str(case / "logdir"), "--remote", str(case / "remote"), "--format", "jsonl", *more]
    code = main(command)
    captured = capsys.readouterr()
    return [json.loads(line) for line in captured.out.splitlines()], captured.err, code


def stored(case: Path) -> dict[str, int]:
    """Bytes of each segment's files, by the UUID in their names."""
    sizes: dict[str, int] = {}
    for path in (case / "remote").rglob("*-*.*"):
        if path.is_file():
            uuid = path.name[21:43]
            sizes[uuid] = sizes.get(uuid, 0) + path.stat().st_size
    return sizes


def recorded(case: Path) -> dict[str, int]:
    """Each segment's last state in the raw records, read at fixed places from the ends of their values."""
    states: dict[str, int] = {}
    for line in (case / "oracle" / "logdir" / "remote_log_metadata.jsonl").read_text().splitlines():
        value = base64.b64decode(json.loads(line)["value"])
        at = 4 + value[3] - 1 + 16 + 4 + 1  # frame, type, version; name; topic id; partition; tags
        uuid = base64.urlsafe_b64encode(value[at : at + 16]).decode().rstrip("=")
        states[uuid] = value[-2]
    return states


def test_every_stored_segment_counts_as_the_broker_recorded_it(
    case: tuple[Path, Snapshot], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = case
    (*segments, summary), errors, code = said(folder, capsys)
    assert (errors, code) == ("", 0)
    assert {each["segment_id"]: each["stored_bytes"] for each in segments} == stored(folder)
    finished = {uuid for uuid, state in recorded(folder).items() if state == 1}
    assert {each["segment_id"] for each in segments if each["status"] == "counts"} == finished
    assert all(each["lineage_checked"] and each["layout"] == "LocalTieredStorage" for each in segments)
    assert summary["summary"]["by_status"] == {"counts": len(finished)}
    assert summary["summary"]["orphaned_bytes"] == 0


def test_the_segments_of_a_log_follow_each_other_to_the_offsets_of_the_broker(
    case: tuple[Path, Snapshot], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = case
    (*segments, _), _, _ = said(folder, capsys)
    answers = json.loads((folder / "oracle" / "logdir" / "offsets.json").read_text())["read_uncommitted"]
    for name, answer in answers.items():
        mine = [each for each in segments if f"{each['topic']}-{each['partition']}" == name]
        ends = [each["end_offset"] for each in mine]
        assert [each["start_offset"] for each in mine] == [answer["earliest"]["offset"], *ends][: len(mine)], name
        assert (ends[-1] - 1 if ends else -1) == answer["latest_tiered"]["offset"], name


def test_without_the_metadata_topic_the_same_segments_count_by_their_own_files(
    case: tuple[Path, Snapshot], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = case
    (*before, _), _, _ = said(folder, capsys)
    for directory in (folder / "logdir").glob("__remote_log_metadata-*"):
        shutil.rmtree(directory)
    (*segments, summary), errors, code = said(folder, capsys)
    assert (code, summary["summary"]["metadata"]) == (1, False)
    assert "no partition of __remote_log_metadata" in errors
    kept = ("topic", "partition", "segment_id", "start_offset", "end_offset", "status", "stored_bytes")
    assert [[each[key] for key in kept] for each in segments] == [[each[key] for key in kept] for each in before]


def test_objects_without_metadata_and_metadata_without_objects_are_orphans(
    case: tuple[Path, Snapshot], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = case
    logs = sorted((folder / "remote").rglob("*.log"))
    lost, doubled = logs[0], logs[1]
    for part in lost.parent.glob(f"{lost.stem}.*"):
        if part.suffix in (".log", ".index"):
            part.unlink()
    other = doubled.with_name(f"{doubled.name[:21]}AAAAAAAAAAAAAAAAAAAAAQ.log")
    shutil.copy(doubled, other)
    foreign = doubled.parent.parent / "elsewhere-0-AAAAAAAAAAAAAAAAAAAAAQ" / doubled.name
    foreign.parent.mkdir()
    shutil.copy(doubled, foreign)
    files = sorted(str(path) for path in folder.rglob("*"))
    (*segments, summary), errors, code = said(folder, capsys)
    by_id = {(each["segment_id"], each["topic"]): each for each in segments}
    missing = next(each for each in segments if each["status"] == "objects-missing")
    assert (missing["segment_id"], missing["missing"]) == (lost.name[21:43], ["log", "offset-index"])
    orphan = next(each for each in segments if each["segment_id"] == "AAAAAAAAAAAAAAAAAAAAAQ")
    assert (orphan["status"], orphan["orphaned"]) == ("unnamed", True)
    assert (orphan["stored_bytes"], orphan["state"]) == (other.stat().st_size, None)
    assert by_id[doubled.name[21:43], "elsewhere"]["status"] == "not-covered"
    assert summary["summary"]["orphaned_segments"] == 2
    assert summary["summary"]["orphaned_bytes"] == orphan["stored_bytes"] + missing["stored_bytes"]
    assert code == 2
    assert "objects are missing: log, offset-index" in errors
    assert f"it has {other.stat().st_size} bytes in 1 objects" in errors
    assert sorted(str(path) for path in folder.rglob("*")) == files, "nothing is deleted"


def test_a_chosen_topic_shows_its_segments_alone(
    case: tuple[Path, Snapshot], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = case
    (*segments, _), _, code = said(folder, capsys, "--topic", "tier-txn")
    assert {each["topic"] for each in segments} == {"tier-txn"}
    assert code == 0
    _, errors, code = said(folder, capsys, "--topic", "nothing")
    assert (code, "nothing" in errors) == (3, True)


def test_a_torn_record_of_the_metadata_is_a_finding_and_the_others_count(
    case: tuple[Path, Snapshot], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = case
    log = folder / "logdir" / "__remote_log_metadata-1" / f"{0:020d}.log"
    content = log.read_bytes()
    (size,) = struct.unpack_from(">i", content, 8)
    with log.open("ab") as stream:
        stream.write(struct.pack(">q", 10**6) + content[8 : 8 + size // 2])
    (*segments, _), _, code = said(folder, capsys)
    assert code in (0, 1)
    assert {each["status"] for each in segments} == {"counts"}
