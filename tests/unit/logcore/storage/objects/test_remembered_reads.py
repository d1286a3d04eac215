"""Reads are remembered by the ETag of the object, and only then used."""

from __future__ import annotations

from logcore.storage.objects import remembered_reads
from logcore.storage.objects.object_reads import ObjectVersion
from logcore.storage.objects.remembered_reads import RememberedRead, RememberedReads

URL = "s3://bucket/logs/replication-offset-checkpoint"
READ = RememberedRead(URL, '"one"', 0, 5, b"0\n0\n\n")


def test_only_the_same_bytes_of_the_same_object_are_known():
    reads = RememberedReads.of([READ])
    assert reads.known(URL, 0, 5, ObjectVersion(5, 1, '"one"')) == READ.content
    assert reads.known(URL, 0, 5, ObjectVersion(5, 1, '"another"')) is None
    assert reads.known(URL, 0, 4, ObjectVersion(5, 1, '"one"')) is None
    assert reads.known(f"{URL}2", 0, 5, ObjectVersion(5, 1, '"one"')) is None


def test_an_object_without_etag_is_never_remembered():
    reads = RememberedReads()
    reads.keep(RememberedRead(URL, "", 0, 5, b"12345"))
    assert (list(reads), reads.is_changed) == ([], False)
    assert (
        RememberedReads.of([RememberedRead(URL, "", 0, 5, b"12345")]).known(URL, 0, 5, ObjectVersion(5, 1, "")) is None
    )


def test_what_was_not_used_is_forgotten():
    reads = RememberedReads.of([READ, RememberedRead("s3://bucket/gone", '"x"', 0, 1, b"x")])
    reads.known(URL, 0, 5, ObjectVersion(5, 1, '"one"'))
    assert (list(reads), reads.is_changed) == ([READ], False)
    reads.keep(RememberedRead("s3://bucket/a", '"y"', 0, 1, b"y"))
    assert ([read.url for read in reads], reads.is_changed) == (["s3://bucket/a", URL], True)


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(remembered_reads, "MOST_BYTES_IN_ALL", 10)
    monkeypatch.setattr(remembered_reads, "MOST_BYTES", 6)
    reads = RememberedReads()
    for number, size in enumerate((7, 6, 5, 4)):
        reads.keep(RememberedRead(f"s3://bucket/{number}", '"x"', 0, size, bytes(size)))
    assert [len(read.content) for read in reads] == [6, 4]
