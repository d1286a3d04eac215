"""A lake of a log whose beginning is in remote storage: joined at once, joined later, and with objects that fail."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from logcore.cli.main import main
from logcore.storage.remote_tier.chunked_segment import KEYS_VARIABLE
from spark_jobs import launch
from spark_jobs.contracts import IngestConfig, PublishConfig
from spark_jobs.ingest import ingest_job as ingest
from spark_jobs.lake.view.lake_state import read_state
from tests import handmade, remote_objects
from tests.broker_directory import LogDirectory
from tests.in_process import InProcessExecutor
from tests.jobs.test_late_segments import idle
from tests.jobs.tiered_lake import MODES, killed_before_rows, turn
from tests.remote_storage import RemoteStorage, batches, tiered
from tests.spark.cycle import AS_OF_MS, Lake

FORMS = {
    "files": {"layout": "files"},
    "chunks": {"layout": "chunks"},
    "encrypted": {"layout": "chunks", "is_encrypted": True},
}


@pytest.fixture(params=FORMS)
def storage(
    request: pytest.FixtureRequest, source: LogDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> RemoteStorage:
    """Offsets 0 to 29 in remote storage, 30 to 49 local."""
    (tmp_path / "key.pem").write_bytes(remote_objects.PRIVATE_KEY)
    monkeypatch.setenv(KEYS_VARIABLE, f"{remote_objects.KEY_ID}={tmp_path / 'key.pem'}")
    return tiered(source, tmp_path / "remote", **FORMS[request.param])


@pytest.mark.parametrize("mode", MODES)
def test_local_and_remote_segments_become_one_log(
    source: LogDirectory, lake: Lake, storage: RemoteStorage, mode: str
) -> None:
    turn(lake, source, storage, mode=mode)
    assert lake.published("orders") == storage.partition.rows
    assert lake.ledger("orders") == [(0, 50, "present")]
    assert lake.rules() <= {"no-remote-metadata"}
    segments = sorted(lake.rows("segments"), key=lambda row: row["base_offset"])
    assert [(row["base_offset"], row["next_offset"]) for row in segments] == [(at, at + 10) for at in range(0, 50, 10)]
    assert [row["origin_file"] for row in segments][:3] == list(map(str, storage.logs()))
    is_copied = [not row["path"].startswith("/") for row in segments]
    assert is_copied == [mode == "copy"] * 5
    idle(lake, source.path, remote=(str(storage.path),), mode=mode)


def test_the_archive_has_the_bytes_that_the_broker_had(
    source: LogDirectory, lake: Lake, storage: RemoteStorage, tmp_path: Path
) -> None:
    other = LogDirectory(tmp_path / "other")
    whole = tiered(other, tmp_path / "moved", layout="files")
    turn(lake, source, storage)
    local = b"".join(path.read_bytes() for path in (*whole.logs(), *whole.partition.segments()))
    assert lake.archived_bytes("orders") == local


@pytest.mark.parametrize("mode", MODES)
def test_a_remote_segment_that_overlaps_the_next_one_is_taken_up_to_it(
    source: LogDirectory, lake: Lake, storage: RemoteStorage, mode: str, tmp_path: Path
) -> None:
    plain = [log.read_bytes() for log in tiered(LogDirectory(tmp_path / "other"), tmp_path / "moved").logs()]
    long = tmp_path / f"{0:020d}.log"
    long.write_bytes(plain[0] + next(batches(plain[1])))
    storage.store(long)
    turn(lake, source, storage, mode=mode)
    assert lake.published("orders") == storage.partition.rows
    first, *_ = sorted(lake.rows("segments"), key=lambda row: row["base_offset"])
    assert (first["base_offset"], first["next_offset"], first["size"]) == (0, 10, len(plain[0]))
    assert first["digest"] == hashlib.sha256(plain[0]).hexdigest()
    idle(lake, source.path, remote=(str(storage.path),), mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_remote_offsets_are_read_as_soon_as_the_storage_is_given(
    source: LogDirectory, lake: Lake, storage: RemoteStorage, mode: str
) -> None:
    turn(lake, source, mode=mode)
    assert lake.ledger("orders") == [(0, 30, "remote"), (30, 50, "present")]
    assert set(lake.published("orders")) == set(range(30, 50))
    turn(lake, source, storage, mode=mode)
    assert lake.published("orders") == storage.partition.rows
    assert {state for _, _, state in lake.ledger("orders")} == {"present"}
    (row,) = lake.rows("logs")
    assert (row["log_start_offset"], row["gaps"]) == (0, "[]")
    filled = [row for row in lake.rows("findings") if row["rule"] == "range-filled"]
    assert [(row["start_offset"], row["end_offset"]) for row in filled] == [(0, 30)]
    idle(lake, source.path, remote=(str(storage.path),), mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_a_run_without_the_storage_loses_and_withdraws_nothing(
    source: LogDirectory, lake: Lake, storage: RemoteStorage, mode: str
) -> None:
    turn(lake, source, storage, mode=mode)
    before = lake.ledger("orders")
    idle(lake, source.path, mode=mode)
    storage.partition.append(10)
    source.high_watermarks(orders_0=60)
    turn(lake, source, mode=mode)
    assert lake.published("orders") == storage.partition.rows
    assert lake.ledger("orders") == [(0, 60, "present")] != before
    assert lake.rows("withdrawals") == []


@pytest.mark.parametrize("mode", MODES)
def test_segments_that_moved_between_two_runs_are_read_from_remote_storage(
    source: LogDirectory, lake: Lake, storage: RemoteStorage, mode: str
) -> None:
    turn(lake, source, storage, mode="copy")
    for _ in range(3):
        storage.partition.append(10)
        storage.partition.roll()
    storage.partition.append(5)
    storage.take(source, 4)
    source.high_watermarks(orders_0=85)
    without = Lake(Path(shutil.copytree(lake.path, lake.path.with_name("without"))))
    turn(lake, source, storage, mode=mode)
    assert lake.published("orders") == storage.partition.rows
    assert lake.ledger("orders") == [(0, 85, "present")]
    turn(without, source, mode=mode)
    start = int(storage.partition.segments()[0].stem)
    assert without.ledger("orders") == [(0, 50, "present"), (50, start, "remote"), (start, 85, "present")]
    turn(without, source, storage, mode=mode)
    assert without.published("orders") == storage.partition.rows
    assert {state for _, _, state in without.ledger("orders")} == {"present"}


@pytest.mark.parametrize("mode", MODES)
def test_an_object_that_vanishes_after_the_listing_is_a_finding_and_the_other_logs_go_on(
    source: LogDirectory, lake: Lake, storage: RemoteStorage, mode: str
) -> None:
    other = source.partition("payments-0", "DDDDDDDDDDDDDDDDDDDDDQ")
    other.append(5)
    source.high_watermarks(orders_0=50, payments_0=5)
    config = IngestConfig(str(lake.path), (str(source.path),), "run", AS_OF_MS, remote=(str(storage.path),), mode=mode)
    planned = ingest.plan(config)
    gone = storage.logs()[1]
    kept = gone.read_bytes()
    gone.unlink()
    report = ingest.apply(planned, config, InProcessExecutor())
    said = [placed for placed in report.findings if placed.finding.file == str(gone)]
    message = {placed.finding.rule: placed.finding.message for placed in said}
    assert message.keys() == {"unreadable", "remote-range-left-out"}
    left = "orders-0: offsets [10, 20) are in remote storage, and stay there alone: "
    assert message["remote-range-left-out"] == left + message["unreadable"]
    rows = {row["topic"]: row for row in lake.rows("logs")}
    assert (rows["orders"]["next_offset"], rows["orders"]["stopped"]) == (50, None)
    assert json.loads(rows["orders"]["gaps"]) == [[10, 20, "remote-tier"]]
    assert rows["payments"]["next_offset"] == 5
    turn(lake, source, storage, mode=mode)
    assert lake.ledger("orders") == [(0, 10, "present"), (10, 20, "remote"), (20, 50, "present")]
    assert lake.published("payments") == other.rows
    gone.write_bytes(kept)
    turn(lake, source, storage, mode=mode)
    assert lake.published("orders") == storage.partition.rows


@pytest.mark.parametrize("mode", MODES)
def test_one_remote_segment_that_cannot_be_read_later_hinders_no_other(
    source: LogDirectory, lake: Lake, storage: RemoteStorage, mode: str
) -> None:
    turn(lake, source, mode=mode)
    config = IngestConfig(str(lake.path), (str(source.path),), "late", AS_OF_MS, remote=(str(storage.path),), mode=mode)
    planned = ingest.plan(config)
    gone = storage.logs()[1]
    kept = gone.read_bytes()
    gone.unlink()
    ingest.apply(planned, config, InProcessExecutor())
    turn(lake, source, mode=mode)
    assert [each for each in lake.ledger("orders") if each[2] == "remote"] == [(10, 20, "remote")]
    assert set(lake.published("orders")) == {*range(10), *range(20, 50)}
    gone.write_bytes(kept)
    turn(lake, source, storage, mode=mode)
    assert lake.published("orders") == storage.partition.rows


def test_storage_that_cannot_be_listed_is_a_finding_and_the_local_log_goes_on(
    source: LogDirectory, lake: Lake, storage: RemoteStorage
) -> None:
    away = storage.path.rename(storage.path.with_name("away"))
    turn(lake, source, storage)
    assert lake.ledger("orders") == [(0, 30, "remote"), (30, 50, "present")]
    assert "unreadable" in lake.rules()
    away.rename(storage.path)
    turn(lake, source, storage)
    assert lake.published("orders") == storage.partition.rows


def test_a_large_load_takes_remote_segments_in_rounds(source: LogDirectory, lake: Lake, storage: RemoteStorage) -> None:
    turn(lake, source)
    left = []
    for _ in range(4):
        report = turn(lake, source, storage, max_bytes=1)["ingest"]
        left.append((report.left, report.metrics.get("segments", 0)))
    assert left == [(("orders-0",), 1), (("orders-0",), 1), ((), 1), ((), 0)]
    assert lake.published("orders") == storage.partition.rows


def test_a_transaction_across_the_border_of_remote_and_local_segments_is_decided(
    source: LogDirectory, lake: Lake, tmp_path: Path
) -> None:
    orders = source.partition("orders-0")
    writing = {"attributes": handmade.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0}
    orders.append(5, **writing, base_sequence=0)
    orders.roll()
    orders.append(5, **writing, base_sequence=5)
    orders.marker(7, handmade.ABORT)
    orders.append(4)
    storage = RemoteStorage(tmp_path / "remote", orders)
    storage.take(source, 1)
    source.high_watermarks(orders_0=15)
    late = Lake(tmp_path / "late")
    turn(late, source)
    for each in (lake, late):
        turn(each, source, storage)
        assert set(each.published("orders")) == {11, 12, 13, 14}
        assert [(start, end, state) for start, end, state in each.ledger("orders") if state == "aborted"] == [
            (0, 10, "aborted")
        ] or {(s, e) for s, e, state in each.ledger("orders") if state == "aborted"} == {(0, 5), (5, 10)}


def test_another_file_under_the_name_of_a_registered_one_is_a_finding_and_that_log_waits(
    source: LogDirectory, lake: Lake, storage: RemoteStorage, tmp_path: Path
) -> None:
    other = source.partition("payments-0", "DDDDDDDDDDDDDDDDDDDDDQ")
    other.append(5)
    source.high_watermarks(orders_0=50, payments_0=5)
    turn(lake, source, storage, mode="reference")
    storage.replace(tmp_path / "others")
    other.append(5)
    source.high_watermarks(orders_0=50, payments_0=10)
    turn(lake, source, storage, mode="reference")
    assert lake.stopped() == {"orders-0": "source-changed", "payments-0": None}
    assert lake.published("orders") == storage.partition.rows
    assert lake.published("payments") == other.rows


def test_a_registered_file_that_is_replaced_before_its_records_are_published_is_not_published(
    source: LogDirectory, lake: Lake, storage: RemoteStorage, tmp_path: Path
) -> None:
    lake.turn(source.path, remote=(str(storage.path),), mode="reference", publish=False)
    storage.replace(tmp_path / "others")
    config = PublishConfig(str(lake.path), "publish", AS_OF_MS)
    report = launch.run(config)
    assert [placed.finding.rule for placed in report.findings] == ["output-mismatch"]
    assert "it was registered as a file of" in report.findings[0].finding.message
    assert lake.published("orders") == {}


def test_a_run_that_died_before_it_wrote_the_row_of_the_log_is_completed_without_the_storage(
    source: LogDirectory, lake: Lake, storage: RemoteStorage
) -> None:
    turn(lake, source)
    killed_before_rows(lake, source, storage)
    turn(lake, source)
    assert lake.published("orders") == storage.partition.rows
    assert {state for _, _, state in lake.ledger("orders")} == {"present"}


def verified(lake: Lake, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict[str, Any]], dict[str, Any]]:
    """Exit code, findings and summary of `loglake verify LAKE`."""
    code = main(["verify", str(lake.path), "--format", "jsonl"])
    *findings, summary = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    return code, findings, summary


def test_verify_checks_referenced_remote_segments(
    source: LogDirectory, lake: Lake, storage: RemoteStorage, capsys: pytest.CaptureFixture[str]
) -> None:
    turn(lake, source, storage, mode="reference")
    code, findings, summary = verified(lake, capsys)
    assert (code, findings) == (0, []), summary


def test_verify_says_which_remote_segments_it_could_not_check(
    source: LogDirectory, lake: Lake, storage: RemoteStorage, capsys: pytest.CaptureFixture[str]
) -> None:
    turn(lake, source, storage, mode="reference")
    files = list(map(str, storage.logs()))
    storage.path.rename(storage.path.with_name("away"))
    code, findings, _ = verified(lake, capsys)
    assert code == 1
    assert [each["rule"] for each in findings] == ["archive-not-checked"] * 3
    assert sorted(each["file"] for each in findings) == files


def test_verify_names_remote_segments_that_are_gone_or_replaced(
    source: LogDirectory, lake: Lake, storage: RemoteStorage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turn(lake, source, storage, mode="reference")
    replaced = storage.replace(tmp_path / "others")
    gone = storage.logs()[2]
    gone.unlink()
    code, findings, _ = verified(lake, capsys)
    assert code == 2
    assert sorted((each["rule"], each["file"]) for each in findings) == [
        ("archive-file-changed", str(replaced)),
        ("archive-file-missing", str(gone)),
    ]


@pytest.fixture
def chunked(
    source: LogDirectory, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[RemoteStorage, list[Path]]:
    """A lake that refers to encrypted segments in chunks, and the manifests of the segments."""
    (tmp_path / "key.pem").write_bytes(remote_objects.PRIVATE_KEY)
    monkeypatch.setenv(KEYS_VARIABLE, f"{remote_objects.KEY_ID}={tmp_path / 'key.pem'}")
    storage = tiered(source, tmp_path / "remote", layout="chunks", is_encrypted=True)
    turn(lake, source, storage, mode="reference")
    return storage, sorted(storage.path.rglob("*.rsm-manifest"))


def test_verify_calls_a_lost_or_broken_manifest_damage_and_names_it(
    chunked: tuple[RemoteStorage, list[Path]], lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    storage, manifests = chunked
    assert verified(lake, capsys)[0] == 0
    good = manifests[1].read_bytes()
    manifests[0].unlink()
    manifests[1].write_bytes(b"")
    code, findings, _ = verified(lake, capsys)
    assert code == 2
    said = {each["rule"]: each for each in findings}
    assert sorted(each["rule"] for each in findings) == ["archive-file-changed", "archive-file-missing"]
    assert said["archive-file-missing"]["file"] == str(storage.logs()[0])
    assert f"Its manifest {manifests[0]} was registered" in said["archive-file-missing"]["message"]
    assert said["archive-file-changed"]["file"] == str(storage.logs()[1])
    manifests[1].write_bytes(good.replace(b'"originalChunkSize": 150', b'"originalChunkSize": 151'))
    assert {each["rule"] for each in verified(lake, capsys)[1]} == {"archive-file-missing", "archive-file-changed"}


def test_a_manifest_that_is_lost_after_a_verification_is_found_by_the_next(
    chunked: tuple[RemoteStorage, list[Path]], lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, manifests = chunked
    command = ["verify", str(lake.path), "--resume", str(tmp_path / "progress")]
    assert main(command) == 0
    assert (tmp_path / "progress").stat().st_size
    manifests[0].unlink()
    capsys.readouterr()
    assert main(command) == 2


@pytest.mark.usefixtures("chunked")
def test_verify_with_the_private_key_of_another_pair_calls_nothing_damaged(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    pem = other.private_bytes(encoding, form, serialization.NoEncryption())
    (tmp_path / "other.pem").write_bytes(pem)
    monkeypatch.setenv(KEYS_VARIABLE, f"{remote_objects.KEY_ID}={tmp_path / 'other.pem'}")
    code, findings, _ = verified(lake, capsys)
    assert (code, [each["rule"] for each in findings]) == (1, ["archive-not-checked"] * 3)
    both = "the private key is of another pair, or dataKey in the manifest was changed"
    assert f"does not decrypt the key of the segment: {both}" in findings[0]["message"]


def test_without_the_key_encrypted_segments_are_a_finding_and_verify_does_not_call_them_damaged(
    source: LogDirectory,
    lake: Lake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "key.pem").write_bytes(remote_objects.PRIVATE_KEY)
    monkeypatch.setenv(KEYS_VARIABLE, f"{remote_objects.KEY_ID}={tmp_path / 'key.pem'}")
    storage = tiered(source, tmp_path / "remote", layout="chunks", is_encrypted=True)
    turn(lake, source, storage, mode="reference")
    monkeypatch.delenv(KEYS_VARIABLE)
    code, findings, _ = verified(lake, capsys)
    assert (code, {each["rule"] for each in findings}) == (1, {"archive-not-checked"})
    other = Lake(tmp_path / "other")
    turn(other, source, storage)
    said = [row for row in other.rows("findings") if row["rule"] == "unreadable"]
    assert len(said) == 3
    assert all(KEYS_VARIABLE in each["message"] for each in said)
    (log,) = read_state(str(other.path)).logs
    left = [each.finding for each in log.findings if each.finding.rule == "remote-range-left-out"]
    assert len(left) == 3
    assert all(KEYS_VARIABLE in each.message for each in left)
    monkeypatch.setenv(KEYS_VARIABLE, f"{remote_objects.KEY_ID}={tmp_path / 'key.pem'}")
    turn(other, source, storage)
    assert other.published("orders") == storage.partition.rows
    (log,) = read_state(str(other.path)).logs
    assert "remote-range-left-out" not in {each.finding.rule for each in log.findings}


def test_the_policies_name_the_storage_of_runs_that_name_none(
    source: LogDirectory, lake: Lake, storage: RemoteStorage, tmp_path: Path
) -> None:
    policies = tmp_path / "policies.yaml"
    policies.write_text("lake:\n  remote: [remote]\n")
    turn(lake, source, policies=str(policies))
    assert lake.published("orders") == storage.partition.rows
