"""Segments in chunks as files that are open for reading, on a local disk."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logcore.errors import LogError
from logcore.logs.model.sources import SegmentFile
from logcore.remote.chunked.chunk_map import ChunkMap, packed
from logcore.remote.chunked.segment_manifest import SegmentChunk, parse_manifest
from logcore.remote.stored_part import SegmentPart
from logcore.storage import source_bytes
from logcore.storage.headers import HeaderReader
from logcore.storage.machine import processors
from logcore.storage.opened_source import LocalFile, open_source, open_stored
from logcore.storage.remote_tier import chunked_segment
from logcore.storage.remote_tier.chunked_segment import (
    KEYS_VARIABLE,
    ChunkedSegment,
    is_chunked_segment,
    private_keys,
    read_index,
)
from logcore.storage.source_bytes import SourceBytes
from logcore.storage.source_errors import SourceChanged, SourceUnreadable
from logcore.storage.source_reads import file_digest, read_range
from tests import handmade, remote_objects

NAME = "orders-GW-1GPphSsCFtpdS005Bug/0/00000000000000000000-Zs2vpUXwT1WTbYAIMD4Ahg"
LOG = os.urandom(3_000) + bytes(5_000) + os.urandom(2_001)
INDEXES = {"offset": b"o" * 16, "timestamp": b"t" * 12, "producerSnapshot": b"", "leaderEpoch": b"0\n1\n0 0\n"}

Keep = Callable[..., str]


@pytest.fixture
def keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keep:
    """Stores a segment below a folder, and gives its key to the environment."""
    key = tmp_path / "key.pem"
    key.write_bytes(remote_objects.PRIVATE_KEY)
    monkeypatch.setenv(KEYS_VARIABLE, f"{remote_objects.KEY_ID}={key}")

    def store(log: bytes = LOG, **options: object) -> str:
        segment = remote_objects.stored_segment(log, INDEXES, **options)
        (tmp_path / NAME).parent.mkdir(parents=True, exist_ok=True)
        for suffix, content in (
            (".log", segment.log),
            (".indexes", segment.indexes),
            (".rsm-manifest", segment.manifest),
        ):
            (tmp_path / (NAME + suffix)).write_bytes(content)
        return str(tmp_path / (NAME + ".log"))

    return store


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("is_encrypted", [False, True])
def test_every_range_of_a_segment_is_as_of_its_file(keep: Keep, compressed: bool, is_encrypted: bool) -> None:
    path = keep(chunk_size=1000, compressed=compressed, is_encrypted=is_encrypted)
    with closing(open_source(path)) as file:
        assert isinstance(file, ChunkedSegment)
        assert (file.size, file.allocated) == (len(LOG), len(LOG))
        for start in range(0, len(LOG) + 100, 331):
            for size in (0, 1, 999, 1000, 1001, 4321, 99_999):
                assert file.read(size, start) == LOG[start : start + size]
    assert read_range(path, 2_999, 8_001) == LOG[2_999:8_001]
    source = SourceBytes(path, sealed=True)
    source.fetch(0, source.size)
    assert bytes(source.content) == LOG
    source.refuse_change()


def test_batches_of_a_segment_in_chunks_are_found(keep: Keep) -> None:
    log = b"".join(handmade.simple_batch(offset, [(b"k", bytes(50))]) for offset in (0, 5, 9))
    path = keep(log, chunk_size=100, compressed=True, is_encrypted=True)
    file = SegmentFile(0, path, len(log), 0, 0)
    assert [header.base_offset for _, header in HeaderReader().headers(file) if header] == [0, 5, 9]


def test_only_chunks_that_are_touched_are_read(keep: Keep, monkeypatch: pytest.MonkeyPatch) -> None:
    path = keep(chunk_size=1000, is_encrypted=True)
    with closing(open_source(path)) as file:
        assert isinstance(file, ChunkedSegment)
        read = []
        stored = file._stored
        real = stored.view
        monkeypatch.setattr(stored, "view", lambda size, at: (read.append((at, size)), real(size, at))[1])
        file.read(1, 2500)
        file.read(100, 2600)
        file.read(10, 2995)
        assert read == [(2 * 1028, 1028), (3 * 1028, 1028)]


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Position and size of each request for stored bytes."""
    requests: list[tuple[int, int]] = []
    real = LocalFile.view

    def counted(file: LocalFile, size: int, position: int) -> memoryview:
        if file.path.endswith(".log"):
            requests.append((position, size))
        return real(file, size, position)

    monkeypatch.setattr(LocalFile, "view", counted)
    return requests


def test_chunks_that_were_requested_ahead_are_not_requested_again(keep: Keep, views: list[tuple[int, int]]) -> None:
    path = keep(chunk_size=1000, is_encrypted=True)
    with closing(open_source(path)) as file:
        file.request(1000, 3500)
        file.request(2000, 4000)
        assert file.read(5000, 500) == LOG[500:5500]
    assert sorted(views) == [(0, 1028), (1028, 3 * 1028), (4 * 1028, 2 * 1028)]


def test_a_request_ahead_that_failed_is_sent_again_by_the_reader(keep: Keep, monkeypatch: pytest.MonkeyPatch) -> None:
    path = keep(chunk_size=1000, is_encrypted=True)
    errors = [SourceUnreadable("the store failed."), SourceUnreadable("it failed again.")]
    real = LocalFile.view

    def failing(file: LocalFile, size: int, position: int) -> memoryview:
        if errors:
            raise errors.pop(0)
        return real(file, size, position)

    with closing(open_source(path)) as file:
        monkeypatch.setattr(LocalFile, "view", failing)
        file.request(0, 1000)
        with pytest.raises(SourceUnreadable, match="it failed again"):
            file.read(1000, 0)
        assert file.read(1000, 0) == LOG[:1000]


def test_the_newest_requested_chunks_are_kept_and_older_ones_are_dropped(
    keep: Keep, views: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunked_segment, "_MOST_REQUESTED", 2000)
    path = keep(chunk_size=1000, is_encrypted=True)
    with closing(open_source(path)) as file:
        for start in (0, 3000, 6000):
            file.request(start, start + 1000)
        assert file.read(len(LOG), 0) == LOG
    assert sorted(views).count((0, 1028)) == 1
    assert (3 * 1028, 1028) in views
    assert (6 * 1028, 1028) in views
    assert sum(size for _, size in views) == os.path.getsize(path) + 1028


@pytest.mark.parametrize("processors_here", [1, 2])
def test_with_one_processor_stored_bytes_are_read_ahead_and_the_reader_decodes_them(
    keep: Keep, views: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch, processors_here: int
) -> None:
    monkeypatch.setattr(processors, "available", lambda: processors_here)
    monkeypatch.setattr(source_bytes, "PIECE", 4096)
    monkeypatch.setattr(LocalFile, "is_remote", True)
    decoders: dict[int, int] = {}
    real = chunked_segment.fill_from_chunk

    def noted(target: memoryview, content: memoryview, chunk: SegmentChunk, *more: Any) -> None:
        decoders[chunk.number] = threading.get_ident()
        real(target, content, chunk, *more)

    monkeypatch.setattr(chunked_segment, "fill_from_chunk", noted)
    log = LOG * 9
    path = keep(log, chunk_size=4096, compressed=True, is_encrypted=True)
    source = SourceBytes(path, sealed=True)
    for at in range(0, len(log), 1000):
        source.fetch(at, at + 1000)
        assert source.content[at : at + 1000] == log[at : at + 1000]
        source.release(at)
    assert len(decoders) == -(-len(log) // 4096)
    read = sum(size for _, size in views)
    if processors_here == 1:
        assert read == os.path.getsize(path)
    else:  # a thread that is late may read a piece that the reader has released already
        assert read >= os.path.getsize(path)
    assert (set(decoders.values()) == {threading.get_ident()}) == (processors_here == 1)


@pytest.mark.parametrize("chunk_size", [100_000, 1 << 20, 4 << 20])
def test_with_one_processor_a_reader_in_order_requests_each_stored_byte_once(
    keep: Keep, views: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch, chunk_size: int
) -> None:
    monkeypatch.setattr(processors, "available", lambda: 1)
    monkeypatch.setattr(LocalFile, "is_remote", True)
    log = os.urandom(1 << 20) * 40
    path = keep(log, chunk_size=chunk_size)
    source = SourceBytes(path, sealed=True)
    for at in range(0, len(log), 1 << 20):
        source.fetch(at, at + (1 << 20))
        assert source.content[at : at + (1 << 20)] == log[at : at + (1 << 20)]
        source.release(at)
    again = sum(size for _, size in views) - os.path.getsize(path)
    # A chunk that lies in two pieces, which are 2 MiB, may be read for both.
    assert again <= (0 if (2 << 20) % chunk_size == 0 or chunk_size % (2 << 20) == 0 else 20 * chunk_size)


def test_indexes_are_read_and_absent_ones_are_none(keep: Keep) -> None:
    path = keep(chunk_size=1000, is_encrypted=True)
    assert read_index(path, SegmentPart.OFFSET_INDEX, open_stored) == b"o" * 16
    assert read_index(path, SegmentPart.PRODUCER_SNAPSHOT, open_stored) == b""
    assert read_index(path, SegmentPart.TRANSACTION_INDEX, open_stored) is None
    Path(path).with_suffix(".indexes").write_bytes(b"short")
    with pytest.raises(SourceUnreadable, match="up to byte 44 of 5"):
        read_index(path, SegmentPart.OFFSET_INDEX, open_stored)


def test_an_object_of_another_size_than_the_manifest_says_is_refused(keep: Keep) -> None:
    path = keep(chunk_size=1000)
    with open(path, "ab") as stream:
        stream.write(b"more")
    with pytest.raises(SourceUnreadable, match="describes 10001 stored bytes, the object has 10005"):
        open_source(path)


def test_a_missing_or_broken_manifest_is_named(keep: Keep) -> None:
    path = keep(chunk_size=1000)
    manifest = Path(path).with_suffix(".rsm-manifest")
    manifest.write_bytes(b"{}")
    with pytest.raises(SourceUnreadable, match="rsm-manifest"):
        open_source(path)
    manifest.unlink()
    with pytest.raises(SourceUnreadable, match=r"rsm-manifest.*cannot be read"):
        open_source(path)


def test_a_chunk_that_changed_gives_no_bytes_and_the_others_still_do(keep: Keep) -> None:
    path = keep(chunk_size=1000, is_encrypted=True)
    content = bytearray(Path(path).read_bytes())
    content[5 * 1028 + 20] ^= 1
    Path(path).write_bytes(content)
    with closing(open_source(path)) as file:
        assert file.read(5000, 0) == LOG[:5000]
        assert file.read(5000, 6000) == LOG[6000:]
        with pytest.raises(SourceUnreadable, match="chunk 5 does not decrypt") as caught:
            file.read(1, 5999)
        assert caught.value.position == 5 * 1028


def test_without_its_key_a_segment_is_unreadable_and_the_message_names_the_id(
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = keep(chunk_size=1000, is_encrypted=True)
    monkeypatch.delenv(KEYS_VARIABLE)
    with closing(open_source(path)) as file, pytest.raises(SourceUnreadable, match="'static-key-id', which was not"):
        file.read(1, 0)


@pytest.mark.parametrize("given", ["no-equals", "=file", "id=", "id=/does/not/exist"])
def test_a_list_of_keys_that_cannot_be_used_is_refused(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEYS_VARIABLE, given)
    with pytest.raises(LogError):
        private_keys()


@pytest.mark.parametrize(("content", "why"), [(None, "No such file"), (b"no key", "not a private key in PEM")])
def test_the_error_of_a_segment_names_the_key_file_that_cannot_be_used(
    keep: Keep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, why: str
) -> None:
    path, key = keep(chunk_size=1000, is_encrypted=True), tmp_path / f"{why[:2]}.pem"
    if content is not None:
        key.write_bytes(content)
    monkeypatch.setenv(KEYS_VARIABLE, f"{remote_objects.KEY_ID}={key}")
    with closing(open_source(path)) as file, pytest.raises(SourceUnreadable) as caught:
        file.read(1, 0)
    said = str(caught.value)
    assert all(part in said for part in (path, str(key), KEYS_VARIABLE, why))
    assert "Correct the file" in said
    assert "another copy" not in said


def test_a_replaced_object_is_a_change(keep: Keep) -> None:
    path = keep(chunk_size=1000)
    with closing(open_source(path)) as file:
        os.utime(path, (1, 1))
        with pytest.raises(SourceChanged):
            file.refuse_change(sealed=False)


def test_only_names_of_the_layout_are_segments_in_chunks() -> None:
    assert is_chunked_segment(f"s3://bucket/{NAME}.log")
    assert not is_chunked_segment(f"s3://bucket/{NAME}.indexes")
    assert not is_chunked_segment("/logs/orders-0/00000000000000000000.log")


def test_the_digest_of_a_segment_in_chunks_is_that_of_its_bytes(keep: Keep) -> None:
    path = keep(chunk_size=777, compressed=True)
    assert file_digest(path) == hashlib.sha256(LOG).hexdigest()


def registered(path: str, *, manifest: bytes | None = None, size: int = len(LOG)) -> SegmentFile:
    """A segment as a lake registered it, with the chunk map of a manifest; by default of its own."""
    said = parse_manifest(Path(path).with_suffix(".rsm-manifest").read_bytes() if manifest is None else manifest)
    there = os.stat(path)
    modified_ms = there.st_mtime_ns // 1_000_000
    etag = f"file of {there.st_size} bytes at {modified_ms}"
    return SegmentFile(0, path, size, modified_ms, 0, etag=etag, chunk_map=packed(ChunkMap(said, "v")))


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_segment_with_a_registered_chunk_map_is_read_without_its_manifest(
    keep: Keep, compressed: bool, is_encrypted: bool
) -> None:
    path = keep(chunk_size=1000, compressed=compressed, is_encrypted=is_encrypted)
    file = registered(path)
    Path(path).with_suffix(".rsm-manifest").unlink()
    assert read_range(path, 2_999, 8_001, file) == LOG[2_999:8_001]
    assert file_digest(path, seen=file) == hashlib.sha256(LOG).hexdigest()


def test_a_registered_chunk_map_does_not_hide_that_the_object_was_replaced(keep: Keep) -> None:
    path = keep(chunk_size=1000, compressed=True)
    file = registered(path)
    keep(LOG[::-1], chunk_size=1000, compressed=True)
    os.utime(path, (1, 1))
    with pytest.raises(SourceChanged):
        read_range(path, 0, 100, file)


@pytest.mark.parametrize("is_encrypted", [False, True])
@pytest.mark.parametrize("other", [LOG[::-1], LOG[:-1000], LOG + LOG], ids=["other-sizes", "shorter", "longer"])
def test_a_registered_chunk_map_of_another_manifest_gives_no_bytes_and_is_named(
    keep: Keep, other: bytes, is_encrypted: bool
) -> None:
    path = keep(other, chunk_size=1000, compressed=True, is_encrypted=is_encrypted)
    manifest = Path(path).with_suffix(".rsm-manifest").read_bytes()
    keep(chunk_size=1000, compressed=True, is_encrypted=is_encrypted)
    file = registered(path, manifest=manifest)
    with pytest.raises(SourceUnreadable, match="its registered chunk map is not that of its manifest") as caught:
        read_range(path, 0, 9_000, file)
    assert caught.value.file == path
    assert "table `segments`" in str(caught.value)


def test_a_registered_chunk_map_that_is_no_map_is_named(keep: Keep) -> None:
    path = keep(chunk_size=1000)
    file = registered(path)
    with pytest.raises(SourceUnreadable, match="its registered chunk map cannot be used: the chunk map ends"):
        read_range(path, 0, 100, replace(file, chunk_map=file.chunk_map[:-1]))


def test_a_broken_chunk_is_no_fault_of_the_registered_chunk_map(keep: Keep) -> None:
    path = keep(chunk_size=1000, is_encrypted=True)
    content = bytearray(Path(path).read_bytes())
    content[20] ^= 1
    Path(path).write_bytes(content)
    with pytest.raises(SourceUnreadable, match="chunk 0 does not decrypt") as caught:
        read_range(path, 0, 100, registered(path))
    assert "chunk map" not in str(caught.value)


def test_a_manifest_that_was_written_again_for_another_rsa_key_is_read(keep: Keep) -> None:
    path = keep(chunk_size=1000, is_encrypted=True)
    manifest = Path(path).with_suffix(".rsm-manifest").read_bytes()
    before = manifest.replace(remote_objects.KEY_ID.encode(), b"key-of-last-year")
    assert read_range(path, 0, 9_000, registered(path, manifest=before)) == LOG[:9_000]
    Path(path).with_suffix(".rsm-manifest").write_bytes(before)
    with pytest.raises(SourceUnreadable, match="'key-of-last-year', which was not given"):
        read_range(path, 0, 9_000, registered(path))
