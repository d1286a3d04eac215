"""Claims on files of a lake that lies on an object store."""

from __future__ import annotations

import os
import tempfile

import pytest

from logcore.storage.discovery import SourceUnreadable
from spark_jobs.errors import StorageError, UsageError
from spark_jobs.lake.delta.tables.snapshots import open_table
from spark_jobs.lake.store import mapped_file, object_store, storage

pytestmark = pytest.mark.object_store


def test_what_is_put_is_read_listed_and_deleted(bucket):
    path = storage.join(bucket, "lake", "archive", "topic@cluster.0", "0", "file")
    storage.put(path, b"bytes")
    storage.put(storage.join(bucket, "lake2", "file"), b"another lake's")
    assert storage.read(path) == b"bytes"
    assert [(f.path, f.size) for f in storage.files_below(storage.join(bucket, "lake"))] == [(path, 5)]
    assert storage.relative(path, storage.join(bucket, "lake")) == "archive/topic@cluster.0/0/file"
    storage.delete(path)
    storage.delete(path)
    assert not storage.exists(path)
    assert not storage.has_files(storage.join(bucket, "lake"))
    with pytest.raises(FileNotFoundError):
        storage.read(path)


def test_only_one_of_two_creators_of_an_object_succeeds(bucket):
    assert storage.create(f"{bucket}/lake.json", b"first")
    assert not storage.create(f"{bucket}/lake.json", b"second")
    assert storage.read(f"{bucket}/lake.json") == b"first"


def test_only_one_of_two_replacements_of_an_object_succeeds(bucket):
    first = object_store.create(f"{bucket}/lease.json", b"first")
    assert first is not None
    assert object_store.update(f"{bucket}/lease.json", b"second", first) is not None
    assert object_store.update(f"{bucket}/lease.json", b"third", first) is None
    assert storage.read(f"{bucket}/lease.json") == b"second"


def test_a_range_is_fetched_alone_and_has_the_position_of_the_object(bucket, monkeypatch):
    content = os.urandom(3000)
    storage.put(f"{bucket}/segment", content)
    monkeypatch.setattr(object_store, "PART_BYTES", 700)
    with mapped_file.mapped(f"{bucket}/segment", 1000, 2500) as mapped:
        assert len(mapped) == 3000
        assert mapped[1000:2500] == content[1000:2500]
        assert mapped[:1000] == bytes(1000)
        assert mapped[2500:] == bytes(500)
    with mapped_file.mapped(f"{bucket}/segment", 2000) as mapped:
        assert mapped[2000:] == content[2000:]
    storage.put(f"{bucket}/empty", b"")
    with mapped_file.mapped(f"{bucket}/empty") as mapped:
        assert mapped == b""
    with pytest.raises(SourceUnreadable, match="not there"), mapped_file.mapped(f"{bucket}/nothing"):
        pass


def test_a_large_file_comes_in_parts_and_is_seen_whole_or_not_at_all(bucket, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    content = os.urandom(20 << 20)
    with storage.writing(f"{bucket}/lake/file") as local:
        with open(local, "wb") as file:
            file.write(content)
        assert not storage.has_files(f"{bucket}/lake")
    assert storage.read(f"{bucket}/lake/file") == content

    def stops_in_the_middle() -> None:
        with storage.writing(f"{bucket}/lake/other") as local, open(local, "wb") as file:
            file.write(b"half")
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        stops_in_the_middle()
    assert [f.path for f in storage.files_below(bucket)] == [f"{bucket}/lake/file"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_store_that_is_not_there_is_one_paragraph(bucket, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StorageError) as said:
        storage.read(f"{bucket}/lake.json")
    assert f"{bucket}/lake.json: the object store at http://127.0.0.1:9 cannot be reached" in str(said.value)
    assert "\n" not in str(said.value)
    with pytest.raises(StorageError, match="tables/records: the object store") as of_delta:
        open_table(f"{bucket}/lake", "records")
    assert "\n" not in str(of_delta.value)
    assert "\x1b" not in str(of_delta.value)
    assert "not-secret" not in str(said.value)


def test_a_missing_bucket_is_reported_as_missing_not_as_empty(server):
    with pytest.raises(StorageError, match="there is no bucket nobody-made-it"):
        storage.read("s3://nobody-made-it/lake/lake.json")
    with pytest.raises(StorageError, match="there is no bucket nobody-made-it"):
        storage.put("s3://nobody-made-it/lake/lake.json", b"")


def test_an_endpoint_without_encryption_has_to_be_meant(bucket, monkeypatch):
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    with pytest.raises(UsageError, match="AWS_ALLOW_HTTP"):
        storage.read(f"{bucket}/lake.json")
