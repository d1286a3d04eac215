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
from logcore.storage.remote_tier.chunked_segment import KEYS_VARIABLE
from tests import remote_objects
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


@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
def test_the_joined_log_is_what_the_brokers_consumer_received(
    case: tuple[Path, Snapshot], isolation_level: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = case
    received = [
        json.loads(line)
        for line in (folder / "oracle" / "logdir" / f"{isolation_level}.jsonl").read_text().splitlines()
    ]
    topics = sorted({each["topic"] for each in received})
    chosen = [word for topic in topics for word in ("--topic", topic)]
    command = ["dump", str(folder / "logdir"), "--remote", str(folder / "remote"), "--format", "jsonl", *chosen]
    assert main([*command, "--isolation.level", isolation_level]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    kept = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
    ours = [[json.loads(line)[name] for name in kept] for line in captured.out.splitlines()]
    theirs = sorted(([each[name] for name in kept] for each in received), key=lambda each: each[:3])
    assert ours == theirs
    local = main(["dump", str(folder / "logdir"), "--format", "jsonl", *chosen])
    assert (local, len(capsys.readouterr().out.splitlines()) < len(theirs)) == (1, True)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("is_encrypted", [False, True])
def test_segments_in_chunks_give_the_same_joined_log(
    case: tuple[Path, Snapshot],
    compressed: bool,
    is_encrypted: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, _ = case
    (tmp_path / "key.pem").write_bytes(remote_objects.PRIVATE_KEY)
    monkeypatch.setenv(KEYS_VARIABLE, f"{remote_objects.KEY_ID}={tmp_path / 'key.pem'}")
    remote_objects.as_aiven_stores(
        folder / "remote", tmp_path / "aiven", compressed=compressed, is_encrypted=is_encrypted
    )
    said = []
    for remote in (folder / "remote", tmp_path / "aiven"):
        code = main(["dump", str(folder / "logdir"), "--remote", str(remote), "--format", "jsonl"])
        captured = capsys.readouterr()
        said.append((code, captured.out, captured.err))
    assert said[0] == said[1]
    assert said[0][0] == 0


NAMES = {
    "earliest": "earliest",
    "earliest_local": "earliest-local",
    "latest": "latest",
    "latest_tiered": "latest-tiered",
    "max_timestamp": "max-timestamp",
}


@pytest.mark.long
@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
def test_offsets_of_the_joined_log_are_the_answers_of_the_broker(
    case: tuple[Path, Snapshot], isolation_level: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = case
    answers = json.loads((folder / "oracle" / "logdir" / "offsets.json").read_text())[isolation_level]
    moments = {moment for answer in answers.values() for moment in answer}
    assert moments > set(NAMES)
    compared = 0
    for moment in sorted(moments):
        at = NAMES.get(moment, f"{moment}ms")
        command = ["offsets", str(folder / "logdir"), "--remote", str(folder / "remote"), "--at", at]
        main([*command, "--isolation.level", isolation_level, "--format", "jsonl"])
        for line in capsys.readouterr().out.splitlines():
            ours = json.loads(line)
            theirs = answers.get(f"{ours['topic']}-{ours['partition']}", {}).get(moment)
            if theirs is not None:
                compared += 1
                assert {key: ours[key] for key in theirs} == theirs, (line, moment)
    assert compared == sum(map(len, answers.values()))


def test_the_earliest_pending_upload_follows_the_last_tiered_offset(
    case: tuple[Path, Snapshot], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = case
    found = {}
    for at in ("latest-tiered", "earliest-pending-upload"):
        main(["offsets", str(folder / "logdir"), "--remote", str(folder / "remote"), "--at", at, "--format", "jsonl"])
        for line in capsys.readouterr().out.splitlines():
            answer = json.loads(line)
            found.setdefault((answer["topic"], answer["partition"]), []).append(answer["offset"])
    assert all(pending == (tiered + 1 if tiered >= 0 else -1) for tiered, pending in found.values())
    assert main(["offsets", str(folder / "logdir"), "--at", "latest-tiered"]) == 64


def test_the_ledger_of_the_joined_log_has_nothing_remote(
    case: tuple[Path, Snapshot], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = case
    command = ["ledger", str(folder / "logdir"), "--format", "jsonl"]
    main(command)
    before = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert any(each["state"] == "remote" for each in before)
    assert main([*command, "--remote", str(folder / "remote")]) == 0
    after = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {each["state"] for each in after} == {"present", "aborted", "control", "trimmed"}
    remote = sum(each["end_offset"] - each["start_offset"] for each in before if each["state"] == "remote")
    known = ("present", "aborted", "control")
    counted = [
        sum(r["end_offset"] - r["start_offset"] for r in rows if r["state"] in known) for rows in (before, after)
    ]
    assert counted[1] - counted[0] == remote


def test_offsets_below_a_segment_that_is_lost_stay_remote(
    case: tuple[Path, Snapshot], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = case
    directory = next((folder / "remote" / "kafka-tiered-storage").glob("tier-txn-0-*"))
    bases = sorted(int(path.name[:20]) for path in directory.glob("*.log"))
    next(directory.glob(f"{bases[1]:020d}-*.log")).unlink()
    command = ["ledger", str(folder / "logdir"), "--remote", str(folder / "remote"), "--topic", "tier-txn"]
    code = main([*command, "--format", "jsonl"])
    captured = capsys.readouterr()
    first, second, *_ = (json.loads(line) for line in captured.out.splitlines())
    assert (first["state"], first["start_offset"], first["end_offset"]) == ("remote", 0, bases[2])
    assert second["state"] != "remote"
    assert code == 2
    assert "objects are missing: log" in captured.err


def bases_of(folder: Path, topic: str) -> list[int]:
    """The first offsets of the remote segments of partition 0."""
    directory = next((folder / "remote" / "kafka-tiered-storage").glob(f"{topic}-0-*"))
    return sorted(int(path.name[:20]) for path in directory.glob("*.log"))


def test_a_manifest_that_cannot_be_read_ends_the_remote_part_of_its_log_alone(
    case: tuple[Path, Snapshot], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = case
    remote_objects.as_aiven_stores(folder / "remote", tmp_path / "aiven")
    bases = bases_of(folder, "tier-txn")
    (manifest,) = (tmp_path / "aiven").glob(f"tier-txn-*/0/{bases[1]:020d}-*.rsm-manifest")
    content = manifest.read_bytes()
    command = ["ledger", str(folder / "logdir"), "--remote", str(tmp_path / "aiven"), "--format", "jsonl"]
    said = []
    for damaged in (content, content[:-9]):
        manifest.write_bytes(damaged)
        code = main(command)
        captured = capsys.readouterr()
        said.append((code, [json.loads(line) for line in captured.out.splitlines()], captured.err))
    (good, whole, _), (code, ranges, errors) = said
    assert (good, code > 0) == (0, True)
    assert f"remote segment {manifest.name[21:43]} from offset {bases[1]}" in errors
    others = [[each for each in rows if each["topic"] != "tier-txn"] for rows in (whole, ranges)]
    assert others[0] == others[1]
    first = next(each for each in ranges if each["topic"] == "tier-txn")
    assert (first["state"], first["start_offset"], first["end_offset"]) == ("remote", 0, bases[2])


def test_the_newest_replica_decides_about_remote_segments(
    case: tuple[Path, Snapshot], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = case
    (*alone, _), _, _ = said(folder, capsys)
    shutil.copytree(folder / "logdir", folder / "stale")
    for checkpoint in (folder / "stale").glob("tier-*/leader-epoch-checkpoint"):
        checkpoint.write_text("0\n0\n")
    for paths in (("stale", "logdir"), ("logdir", "stale")):
        command = ["remote", *(str(folder / path) for path in paths), "--remote", str(folder / "remote")]
        main([*command, "--format", "jsonl"])
        *segments, _ = (json.loads(line) for line in capsys.readouterr().out.splitlines())
        assert segments == alone


def test_replicas_of_the_metadata_topic_are_read_once(
    case: tuple[Path, Snapshot], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = case
    shutil.copytree(folder / "logdir", folder / "second")
    command = ["remote", str(folder / "logdir"), str(folder / "second"), "--remote", str(folder / "remote")]
    assert main([*command, "--format", "jsonl"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said, "that there are two copies"
    assert all(line.startswith("warning several-copies: ") for line in said)


def test_several_remote_storages_are_one(case: tuple[Path, Snapshot], capsys: pytest.CaptureFixture[str]) -> None:
    folder, _ = case
    command = ["dump", str(folder / "logdir"), "--format", "jsonl"]
    offsets = ["offsets", str(folder / "logdir"), "--at", "latest-tiered", "--format", "jsonl"]

    def answers(*remotes: str) -> list[tuple[int, str, str]]:
        named = [word for remote in remotes for word in ("--remote", str(folder / remote))]
        return [(main([*words, *named]), *capsys.readouterr()) for words in (command, offsets)]

    whole = answers("remote")
    moved = sorted((folder / "remote").rglob("*.log"))[::2]
    for log in moved:
        target = folder / "more" / log.parent.name
        target.mkdir(parents=True, exist_ok=True)
        for part in log.parent.glob(f"{log.stem}.*"):
            part.rename(target / part.name)
    assert answers("remote", "more") == answers("more", "remote") == whole
    assert answers("more", "remote", "more") == whole


def ledger_of(
    folder: Path, remote: Path, topic: str, capsys: pytest.CaptureFixture[str]
) -> tuple[int, tuple[str, int, int], str]:
    """Exit code, the first range, and stderr."""
    command = ["ledger", str(folder / "logdir"), "--remote", str(remote), "--topic", topic, "--partition", "0"]
    code = main([*command, "--format", "jsonl"])
    captured = capsys.readouterr()
    first = json.loads(captured.out.splitlines()[0])
    return code, (first["state"], first["start_offset"], first["end_offset"]), captured.err


def test_a_remote_segment_shorter_than_the_metadata_says_does_not_count(
    case: tuple[Path, Snapshot], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = case
    bases = bases_of(folder, "tier-txn")
    directory = next((folder / "remote" / "kafka-tiered-storage").glob("tier-txn-0-*"))
    (log,) = directory.glob(f"{bases[1]:020d}-*.log")
    content = log.read_bytes()
    log.write_bytes(content[: -(12 + struct.unpack_from(">i", content, 8)[0])])
    code, first, errors = ledger_of(folder, folder / "remote", "tier-txn", capsys)
    assert (code > 0, first) == (True, ("remote", 0, bases[2]))
    assert f"{log.stat().st_size} of the {len(content)} bytes" in errors
    assert log.name[21:43] in errors


def test_a_local_log_that_begins_inside_a_remote_segment_continues_it(
    case: tuple[Path, Snapshot], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = case
    local = folder / "logdir" / "tier-txn-0"
    begin = min(int(path.stem) for path in local.glob("*.log"))
    directory = next((folder / "remote" / "kafka-tiered-storage").glob("tier-txn-0-*"))
    inside = max(base for base in bases_of(folder, "tier-txn") if base < begin)
    (log,) = directory.glob(f"{inside:020d}-*.log")
    content = log.read_bytes()
    second = 12 + struct.unpack_from(">i", content, 8)[0]
    (base,) = struct.unpack_from(">q", content, second)
    remote_objects.as_aiven_stores(folder / "remote", tmp_path / "aiven")
    command = ["dump", str(folder / "logdir"), "--topic", "tier-txn", "--format", "jsonl"]
    before = (main([*command, "--remote", str(folder / "remote")]), *capsys.readouterr())
    (local / f"{base:020d}.log").write_bytes(content[second:])
    for remote in (folder / "remote", tmp_path / "aiven"):
        assert (main([*command, "--remote", str(remote)]), *capsys.readouterr()) == before


def test_verify_reads_the_remote_segments_and_their_indexes_in_both_layouts(
    case: tuple[Path, Snapshot], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = case
    (tmp_path / "key.pem").write_bytes(remote_objects.PRIVATE_KEY)
    monkeypatch.setenv(KEYS_VARIABLE, f"{remote_objects.KEY_ID}={tmp_path / 'key.pem'}")
    remote_objects.as_aiven_stores(folder / "remote", tmp_path / "aiven", compressed=True, is_encrypted=True)
    command = ["verify", str(folder / "logdir"), "--format", "jsonl"]
    local = main(command), [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    sums = []
    for remote in (folder / "remote", tmp_path / "aiven"):
        code = main([*command, "--remote", str(remote)])
        *findings, summary = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert (code, [each for each in findings if each["severity"] != "info"]) == (0, [])
        sums.append(summary["summary"])
    assert sums[0] == sums[1]
    stored = [(log.parent.name[:-23], f"{log.name[:20]}.log") for log in (folder / "remote").rglob("*.log")]
    moved = [each for each in stored if not folder.joinpath("logdir", *each).exists()]
    assert sums[0]["files"] == local[1][-1]["summary"]["files"] + len(moved) > local[1][-1]["summary"]["files"]
    (index,) = (tmp_path / "aiven").glob(f"tier-txn-*/0/{bases_of(folder, 'tier-txn')[0]:020d}-*.indexes")
    index.write_bytes(index.read_bytes()[:-1])
    assert main([*command, "--remote", str(tmp_path / "aiven")]) > 0
    assert "the manifest describes an index up to byte" in capsys.readouterr().out


def test_ls_shows_the_log_from_its_remote_start(
    case: tuple[Path, Snapshot], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = case
    answers = json.loads((folder / "oracle" / "logdir" / "offsets.json").read_text())["read_uncommitted"]
    assert main(["ls", str(folder / "logdir"), "--remote", str(folder / "remote"), "--format", "jsonl"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    starts = {f"{line['topic']}-{line['partition']}": line["log_start_offset"] for line in lines}
    assert {name: starts[name] for name in answers} == {n: each["earliest"]["offset"] for n, each in answers.items()}
