"""Claims on files of a lake that lies in a local directory; on an object store: tests/object_store."""

from __future__ import annotations

import os

import pytest

from spark_jobs.errors import UsageError
from spark_jobs.lake.store import storage


def test_a_file_is_seen_whole_or_not_at_all(tmp_path, monkeypatch):
    path = str(tmp_path / "tables" / "records" / "file")
    monkeypatch.setattr(storage.os, "replace", lambda *_: pytest.fail("a file that was not finished came to its place"))

    def stops_in_the_middle() -> None:
        with storage.writing(path) as local, open(local, "wb") as file:
            file.write(b"half")
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        stops_in_the_middle()
    assert os.listdir(os.path.dirname(path)) == []


def test_a_file_and_every_directory_made_for_it_is_on_disk_before_it_counts_as_written(tmp_path, monkeypatch):
    synced = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), tmp_path))
        real(descriptor)

    monkeypatch.setattr(storage.os, "fsync", fsync)
    storage.put(str(tmp_path / "lake" / "archive" / "topic.0" / "0" / "id" / "file"), b"bytes")
    assert synced[0].startswith("lake/archive/topic.0/0/id/.")  # the bytes, before the name that shows them
    assert synced[1:] == ["lake/archive/topic.0/0/id", "lake/archive/topic.0/0", "lake/archive/topic.0",
                          "lake/archive", "lake"]  # fmt: skip


def test_only_one_of_two_creators_of_a_file_succeeds(tmp_path):
    path = str(tmp_path / "lake.json")
    assert storage.create(path, b"first")
    assert not storage.create(path, b"second")
    assert (tmp_path / "lake.json").read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["lake.json"]


@pytest.mark.parametrize(
    ("named", "known"),
    [("s3://bucket/lake/", "s3://bucket/lake"), ("s3://bucket", "s3://bucket"), ("/a/../lake/", "/lake")],
)
def test_a_lake_has_one_name(named, known):
    assert storage.absolute(named) == known


@pytest.mark.parametrize("named", ["gs://bucket/lake", "s3:///lake", "s3://id:word@bucket/lake", "s3://bucket/a?b=c"])
def test_what_names_no_bucket_and_prefix_is_refused_and_credentials_are_not_repeated(named):
    with pytest.raises(UsageError, match="s3://bucket/prefix") as refused:
        storage.absolute(named)
    assert "word" not in str(refused.value)
