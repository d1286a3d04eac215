"""The corpus is what its certificate says, is listed whole, and unpacks as it was packed."""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from typing import TYPE_CHECKING

import pytest

from tests.conformance.snapshots import CORPUS, NOT_CONSUMED, SNAPSHOTS, Snapshot
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from tests.conformance.conftest import Corpus

ARCHIVES = sorted(CORPUS.glob("*/*.tar.xz"))
TIERED = ("tiered-3.9.2/logdir", "tiered-4.3.1/logdir")
FIRST_OF_CASE = {snapshot.case: snapshot for snapshot in SNAPSHOTS}


def test_every_archive_has_its_digest_in_the_certificate():
    certificate = (CORPUS / "PROVENANCE.md").read_text()
    stated = {name: digest for digest, name in re.findall(r"^([0-9a-f]{64})  (\S+)$", certificate, re.MULTILINE)}
    found = {str(path.relative_to(CORPUS)): hashlib.sha256(path.read_bytes()).hexdigest() for path in ARCHIVES}
    assert found == stated
    assert len(found) == 40


@pytest.mark.long
def test_every_folder_of_every_archive_is_a_listed_snapshot():
    """A folder that is neither the oracle nor listed would be a log directory that no test reads."""
    found = set()
    for path in ARCHIVES:
        with tarfile.open(path) as archive:
            folders = {tuple(member.name.split("/")[:2]) for member in archive if member.name.count("/") > 1}
        found |= {(path.parent.name, case, folder) for case, folder in folders if folder != "oracle"}
    assert found == {(snapshot.era, snapshot.case, snapshot.name) for snapshot in SNAPSHOTS}
    assert len(found) == len(SNAPSHOTS) == 97


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=str)
def test_unpacking_gives_the_broker_s_files_with_their_times(corpus: Corpus, snapshot: Snapshot):
    root = corpus.directory(snapshot)
    found = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
    if snapshot.era == "modern":
        stated = {entry["path"]: entry for entry in json.loads(corpus.oracle(snapshot, "files.json").read_text())}
        assert set(found) == set(stated)
        for name, entry in stated.items():
            assert found[name].stat().st_size == entry["size"]
            assert hashlib.sha256(found[name].read_bytes()).hexdigest() == entry["sha256"]
            assert abs(found[name].stat().st_mtime_ns - entry["mtime_ns"]) < 1_000_000
    else:
        times = corpus.facts(snapshot)["mtimes_ms"][snapshot.name]
        assert set(found) == set(times)
        for name, modified_ms in times.items():
            assert abs(found[name].stat().st_mtime_ns // 1_000_000 - modified_ms) <= 1, name


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=str)
def test_a_consumer_read_these_files_wherever_the_table_says_so(corpus: Corpus, snapshot: Snapshot):
    """And its output is there for no snapshot that the table gives no consumer, but for the tiered ones."""
    for isolation_level in ("read_uncommitted", "read_committed"):
        there = (corpus.case(snapshot) / "oracle" / snapshot.consumer_file(isolation_level)).exists()
        if snapshot.era == "modern":
            assert there == (isolation_level in snapshot.consumed or str(snapshot) in TIERED)
        else:
            assert there or isolation_level not in snapshot.consumed


def test_every_snapshot_is_consumed_or_left_out_for_a_reason():
    consumed = {str(snapshot) for snapshot in SNAPSHOTS if snapshot.consumed}
    assert consumed | set(NOT_CONSUMED) == {str(snapshot) for snapshot in SNAPSHOTS}
    assert consumed & set(NOT_CONSUMED) == set()
    assert (len(consumed), len(NOT_CONSUMED)) == (62, 35)


@pytest.mark.parametrize("sample", sorted(path.name for path in SAMPLES.glob("*.tar.xz") if path.stem[:7] != "damaged"))
def test_a_sample_is_a_part_of_its_case(corpus: Corpus, sample: str):
    snapshot = FIRST_OF_CASE[sample.removesuffix(".tar.xz")]
    case = corpus.case(snapshot)
    with tarfile.open(SAMPLES / sample) as archive:
        files = [member for member in archive if member.isfile() and member.name.startswith("logdir/")]
        assert files
        for member in files:
            stream = archive.extractfile(member)
            assert stream is not None
            assert stream.read() == (case / member.name).read_bytes(), member.name
