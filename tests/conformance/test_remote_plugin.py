"""Objects that Aiven's plugin itself stored: their bytes are those of the segments, and the log is the broker's.

`stored_objects/PROVENANCE.md` says how they were made.
"""

from __future__ import annotations

import base64
import json
import shutil
import tarfile
from pathlib import Path

import pytest

from logcore.cli.main import main
from logcore.remote import aiven_layout
from logcore.remote.stored_part import SegmentPart
from logcore.storage.opened_source import open_stored
from logcore.storage.remote_tier.chunked_segment import KEYS_VARIABLE, read_index
from logcore.storage.source_reads import file_digest, read_file
from tests import remote_objects
from tests.conformance.conftest import Corpus
from tests.conformance.snapshots import SNAPSHOTS

ARCHIVE = Path(__file__).parent / "stored_objects" / "aiven-1.0.0.tar.xz"
SETTINGS = {
    "plain": {("fixed", False, False)},
    "zstd": {("variable", True, False)},
    "aes": {("fixed", False, True)},
    "zstd-aes": {("variable", True, True)},
    "heuristic": {("fixed", False, False), ("variable", True, False)},
}
"""Type of the chunk index, compression and encryption of the segments in each folder."""

INDEXES = {
    SegmentPart.OFFSET_INDEX: ".index",
    SegmentPart.TIME_INDEX: ".timeindex",
    SegmentPart.PRODUCER_SNAPSHOT: ".snapshot",
    SegmentPart.LEADER_EPOCHS: ".leader_epoch_checkpoint",
    SegmentPart.TRANSACTION_INDEX: ".txnindex",
}


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders of the archive."""
    folder = tmp_path_factory.mktemp("objects")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def case(corpus: Corpus) -> Path:
    """The case whose segments the plugin was given; not to be changed."""
    (snapshot,) = [each for each in SNAPSHOTS if each.case == "tiered-4.3.1" and each.name == "logdir"]
    return corpus.case(snapshot)


@pytest.fixture(params=sorted(SETTINGS))
def stored(request: pytest.FixtureRequest, objects: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of objects, and the key to them."""
    (tmp_path / "key.pem").write_bytes(remote_objects.PRIVATE_KEY)
    monkeypatch.setenv(KEYS_VARIABLE, f"{remote_objects.KEY_ID}={tmp_path / 'key.pem'}")
    return objects / str(request.param)


def test_the_objects_are_what_their_settings_say(stored: Path) -> None:
    manifests = [json.loads(path.read_text()) for path in stored.rglob("*.rsm-manifest")]
    kinds = {(each["chunkIndex"]["type"], each["compression"], "encryption" in each) for each in manifests}
    assert (len(manifests), kinds) == (13, SETTINGS[stored.name])


def test_the_bytes_of_segments_and_indexes_are_those_that_the_plugin_was_given(stored: Path, case: Path) -> None:
    given = {path.stem: path for path in (case / "remote").rglob("*.log")}
    paths = sorted(stored.rglob("*.log"))
    assert {path.stem for path in paths} == given.keys()
    for path in paths:
        log = given[path.stem]
        assert file_digest(str(path)) == file_digest(str(log))
        for part, suffix in INDEXES.items():
            file = log.with_suffix(suffix)
            content = file.read_bytes() if file.exists() else None
            assert read_index(str(path), part, open_stored) == content, (path, part)
            if content is not None:
                assert read_file(aiven_layout.index_path(str(path), part)) == content


@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("has_metadata", [True, False])
def test_the_joined_log_is_what_the_brokers_consumer_received(
    stored: Path,
    case: Path,
    tmp_path: Path,
    isolation_level: str,
    has_metadata: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = (case / "oracle" / "logdir" / f"{isolation_level}.jsonl").read_text().splitlines()
    received = [json.loads(line) for line in lines]
    logs = case / "logdir"
    if not has_metadata:
        logs = Path(shutil.copytree(logs, tmp_path / "logs", ignore=shutil.ignore_patterns("__remote*")))
    chosen = [word for topic in sorted({each["topic"] for each in received}) for word in ("--topic", topic)]
    command = ["dump", str(logs), "--remote", str(stored), "--format", "jsonl", *chosen]
    assert main([*command, "--isolation.level", isolation_level]) == (0 if has_metadata else 1)
    kept = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
    ours = [[json.loads(line)[name] for name in kept] for line in capsys.readouterr().out.splitlines()]
    assert ours == sorted(([each[name] for name in kept] for each in received), key=lambda each: each[:3])


def test_verify_finds_nothing(stored: Path, case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(case / "logdir"), "--remote", str(stored), "--format", "jsonl"]) == 0
    *findings, summary = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each for each in findings if each["severity"] != "info"] == []
    assert summary["summary"]["quarantined_bytes"] == 0


def test_every_entry_of_the_indexes_is_shown(stored: Path, case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for remote in (case / "remote", stored):
        command = ["dump", str(case / "logdir"), "--remote", str(remote), "--indexes", "--topic", "tier-txn"]
        assert main([*command, "--format", "jsonl"]) == 0
        shown.append([json.loads(line) for line in capsys.readouterr().out.splitlines()])
    assert shown[0] == shown[1]
    (folder,) = (case / "remote" / "kafka-tiered-storage").glob("tier-txn-0-*")
    for name, suffix, entry_size in (
        ("offset", "index", 8),
        ("time", "timeindex", 12),
        ("transaction", "txnindex", 34),
    ):
        remote_bytes = sum(path.stat().st_size for path in folder.glob(f"*.{suffix}"))
        entries = [each for each in shown[1] if each["index"] == name]
        assert len(entries) >= remote_bytes // entry_size > 0


def test_offsets_are_the_answers_of_the_broker(stored: Path, case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = json.loads((case / "oracle" / "logdir" / "offsets.json").read_text())["read_uncommitted"]["tier-txn-0"]
    for moment, theirs in answers.items():
        at = f"{moment}ms" if moment.isdigit() else moment.replace("_", "-")
        command = ["offsets", str(case / "logdir"), "--remote", str(stored), "--at", at, "--format", "jsonl"]
        main([*command, "--topic", "tier-txn"])
        ours = json.loads(capsys.readouterr().out)
        assert {key: ours[key] for key in theirs} == theirs, moment


def test_custom_metadata_of_the_plugin_has_the_bytes_of_all_objects(objects: Path) -> None:
    packed = (
        "AwACki8BDQ1zb21lL3ByZWZpeC8CTk50aWVyLXR4bi1HbGxndXdUZlFZMk15R2s0dUtOR0RRLzAvMDAwMDAwMDAwMDAwMDAwMDAwOTMtZUwx"
        "Tnp2NW5TMWlBbjB3T3c2Z0dYUQ=="
    )
    metadata = aiven_layout.custom_metadata(base64.b64decode(packed))
    assert (metadata.prefix, metadata.key) == (
        "some/prefix/",
        "tier-txn-GllguwTfQY2MyGk4uKNGDQ/0/00000000000000000093-eL1Nzv5nS1iAn0wOw6gGXQ",
    )
    stored = (objects / "zstd-aes").glob(f"{metadata.prefix}{metadata.key}.*")
    assert metadata.remote_size == sum(path.stat().st_size for path in stored)
