"""Remote storage in a bucket: the listing, and encrypted segments in chunks, read by ranges."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from logcore.cli.main import main
from logcore.logs.model.sources import SegmentFile
from logcore.storage.objects.listing import whole_listing
from logcore.storage.remote_tier.chunked_segment import KEYS_VARIABLE
from logcore.storage.remote_tier.remote_listing import has_segments
from logcore.storage.source_bytes import SourceBytes
from logcore.storage.source_errors import SourceChanged, SourceUnreadable
from logcore.storage.source_reads import file_digest, read_range
from tests import remote_objects
from tests.broker_directory import LogDirectory
from tests.object_store.gateway import upload
from tests.tiered_log import TieredLog, run

pytestmark = pytest.mark.object_store

NAME = "orders-GW-1GPphSsCFtpdS005Bug/0/00000000000000000000-Zs2vpUXwT1WTbYAIMD4Ahg"
LOG = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(40_000))


@pytest.fixture
def stored(gateway_bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, SegmentFile]:
    """A prefix with one segment, and the segment as it was listed."""
    (tmp_path / "key.pem").write_bytes(remote_objects.PRIVATE_KEY)
    monkeypatch.setenv(KEYS_VARIABLE, f"{remote_objects.KEY_ID}={tmp_path / 'key.pem'}")
    segment = remote_objects.stored_segment(LOG, {}, chunk_size=100_000, compressed=True, is_encrypted=True)
    folder = tmp_path / "tier"
    (folder / NAME).parent.mkdir(parents=True)
    for suffix, content in ((".log", segment.log), (".indexes", segment.indexes), (".rsm-manifest", segment.manifest)):
        (folder / (NAME + suffix)).write_bytes(content)
    upload(folder, f"{gateway_bucket}/tier")
    (listed,) = [each for each in whole_listing(f"{gateway_bucket}/tier") if each.key.endswith(".log")]
    url = f"{gateway_bucket}/tier/{NAME}.log"
    return f"{gateway_bucket}/tier", SegmentFile(0, url, len(LOG), listed.modified_ms, 0, etag=listed.etag)


def test_ranges_and_the_whole_of_an_encrypted_segment_are_those_of_its_file(stored: tuple[str, SegmentFile]) -> None:
    _, file = stored
    for start, end in ((0, 61), (99_990, 100_010), (250_000, 700_001), (len(LOG) - 5, len(LOG))):
        assert read_range(file.path, start, end, file) == LOG[start:end]
    assert file_digest(file.path, seen=file) == hashlib.sha256(LOG).hexdigest()
    source = SourceBytes(file.path, sealed=True, seen=file)
    source.fetch_all()
    assert bytes(source.content) == LOG


def test_an_object_that_was_replaced_after_the_listing_is_a_change(
    stored: tuple[str, SegmentFile], tmp_path: Path
) -> None:
    root, file = stored
    log = tmp_path / "tier" / f"{NAME}.log"
    log.write_bytes(log.read_bytes()[::-1])
    upload(tmp_path / "tier", root)
    with pytest.raises(SourceChanged):
        read_range(file.path, 0, 61, file)


@pytest.mark.parametrize("suffix", [".log", ".rsm-manifest"])
def test_an_object_that_vanished_after_the_listing_is_named(stored: tuple[str, SegmentFile], suffix: str) -> None:
    import obstore

    from logcore.storage.objects.access import store_and_key

    root, file = stored
    store, key = store_and_key(f"{root}/{NAME}{suffix}")
    obstore.delete(store, key)
    with pytest.raises((SourceUnreadable, SourceChanged), match=f"{NAME}{suffix}"):
        read_range(file.path, 0, 61, file)


@pytest.mark.parametrize("is_chunked", [False, True])
def test_overlapping_segments_of_a_bucket_are_one_log(gateway_bucket: str, tmp_path: Path, is_chunked: bool) -> None:
    log = TieredLog(tmp_path)
    log.append(3, 4, 5, 6, 7)
    log.copy(0, 12)
    lost = log.copy(7, 25)
    log.elect(at=18)
    log.append(4, 4)
    log.copy(12, 22)
    log.write(22)
    objects = log.remote
    if is_chunked:
        objects = tmp_path / "objects"
        remote_objects.as_aiven_stores(log.remote, objects, chunk_size=150, compressed=True)
    upload(objects, f"{gateway_bucket}/tier")
    for command, expected in (("dump", log.expected(0)), ("ledger", [("present", 0, 26)])):
        said = run(command, log, "--topic", "orders", remotes=[f"{gateway_bucket}/tier"])
        assert (said.code, said.errors) == (0, "")
        assert (said.rows if command == "dump" else said.ranges) == expected
    segments = run("remote", log, remotes=[f"{gateway_bucket}/tier"]).lines[:-1]
    assert {each["segment_id"]: each["lineage_end_offset"] for each in segments}[lost.text] == 18


def test_the_segments_of_a_bucket_are_listed(
    stored: tuple[str, SegmentFile], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = LogDirectory(tmp_path / "logs")
    logs.partition("orders-0").append(4)
    logs.high_watermarks(orders_0=4)
    root, _ = stored
    code = main(["remote", str(logs.path), "--remote", root, "--format", "jsonl"])
    captured = capsys.readouterr()
    segment, summary = map(json.loads, captured.out.splitlines())
    assert (segment["layout"], segment["objects"], segment["status"]) == ("Aiven", 3, "not-covered")
    assert summary["summary"]["stored_bytes"] == segment["stored_bytes"] > len(LOG)
    assert code == 1
    assert "no partition of __remote_log_metadata" in captured.err


def test_a_prefix_without_any_object_is_not_called_a_storage_that_lost_its_segments(
    gateway_bucket: str, tmp_path: Path
) -> None:
    log = TieredLog(tmp_path)
    log.append(5, 5, 5)
    log.copy(0, 10)
    log.write(10)
    upload(log.remote, f"{gateway_bucket}/tier")
    wrong = f"{gateway_bucket}/tire"
    said = run("remote", log, remotes=[wrong])
    assert (said.code, f"{wrong} has no object of a segment" in said.errors) == (3, True)
    assert [each["status"] for each in said.lines[:-1]] == ["storage-empty"]
    assert run("dump", log, "--topic", "orders", remotes=[wrong]).rows == log.expected(10)
    assert has_segments(f"{gateway_bucket}/tier")
    assert not has_segments(wrong)
