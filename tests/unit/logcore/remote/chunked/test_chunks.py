"""Chunks of stored segments: where they are, and how they become bytes of the segment again."""

from __future__ import annotations

import base64
import contextlib
import json
import struct
import tracemalloc
from typing import Any

import pytest
import zstandard

from logcore.errors import (
    CorruptChunkError,
    CorruptIndexError,
    LogError,
    SegmentKeyError,
    UnsupportedFormatError,
)
from logcore.remote.chunked.chunks import ChunkCipher, PrivateKeys, fill_from_chunk, index_contents, read_private_key
from logcore.remote.chunked.segment_manifest import (
    ChunkIndex,
    SegmentChunk,
    SegmentManifest,
    parse_manifest,
    stored_sizes,
)
from logcore.remote.stored_part import SegmentPart
from tests import remote_objects

INDEXES = {"offset": b"o" * 16, "timestamp": b"t" * 12, "producerSnapshot": b"", "leaderEpoch": b"0\n1\n0 0\n"}
LOG = b"".join(struct.pack(">q", number) * 3 for number in range(100))  # 2,400 bytes


def _read(stored: remote_objects.StoredSegment) -> bytes:
    manifest = parse_manifest(stored.manifest)
    manifest.chunks.refuse_other_size(len(stored.log))
    cipher = _cipher(manifest)
    found = b""
    for number in range(manifest.chunks.count):
        chunk = manifest.chunks.chunk(number)
        found += _chunk(stored.log[chunk.stored_position : chunk.stored_end], chunk, manifest, cipher)
    return found


def _chunk(content: bytes, chunk: SegmentChunk, manifest: SegmentManifest, cipher: ChunkCipher | None) -> bytes:
    """The bytes of a chunk. No byte around them is written, and none of a chunk that is refused."""
    memory, end = bytearray(b"#" * (chunk.size + 64)), 32 + chunk.size
    memory[32:end] = bytes(chunk.size)
    try:
        with memoryview(memory)[32:end] as target:
            fill_from_chunk(target, content, chunk, manifest, cipher)
    except CorruptChunkError:
        assert not any(memory[32:end])
        raise
    finally:
        assert memory[:32] == memory[end:] == b"#" * 32
    return bytes(memory[32:end])


def _cipher(manifest: SegmentManifest) -> ChunkCipher | None:
    if manifest.encryption is None:
        return None
    return PrivateKeys({remote_objects.KEY_ID: read_private_key(remote_objects.PRIVATE_KEY)}).cipher(
        manifest.encryption
    )


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("is_encrypted", [False, True])
@pytest.mark.parametrize("variable", [False, True])
@pytest.mark.parametrize("chunk_size", [1, 7, 1000, 1200, 2400, 5000])
def test_all_chunks_together_are_the_segment(
    compressed: bool, is_encrypted: bool, variable: bool, chunk_size: int
) -> None:
    log = LOG[:200] if chunk_size < 10 else LOG
    if compressed:
        variable = True  # a fixed index cannot hold the different sizes of compressed chunks
    stored = remote_objects.stored_segment(
        log, INDEXES, chunk_size=chunk_size, compressed=compressed, is_encrypted=is_encrypted, variable=variable
    )
    assert _read(stored) == log


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_indexes_are_cut_out_of_their_object(is_encrypted: bool) -> None:
    stored = remote_objects.stored_segment(LOG, INDEXES, chunk_size=1000, is_encrypted=is_encrypted)
    manifest = parse_manifest(stored.manifest)
    found = {
        part: index_contents(stored.indexes[at.position : at.position + at.size], part, _cipher(manifest))
        for part, at in manifest.indexes.items()
    }
    assert found == {
        SegmentPart.OFFSET_INDEX: b"o" * 16,
        SegmentPart.TIME_INDEX: b"t" * 12,
        SegmentPart.PRODUCER_SNAPSHOT: b"",
        SegmentPart.LEADER_EPOCHS: b"0\n1\n0 0\n",
    }


def test_bytes_of_bouncycastle_and_of_the_jdk_decrypt() -> None:
    stored = remote_objects.stored_segment(remote_objects.PLAIN, {}, chunk_size=100, is_encrypted=True)
    manifest = parse_manifest(stored.manifest)
    assert _chunk(remote_objects.ENCRYPTED, manifest.chunks.chunk(0), manifest, _cipher(manifest)) == (
        remote_objects.PLAIN
    )


def test_a_range_needs_only_the_chunks_that_it_touches() -> None:
    index = ChunkIndex.fixed(100, 250, 110, 80)
    assert [index.chunk(number) for number in range(3)] == [
        type(index.chunk(0))(0, 0, 100, 0, 110),
        type(index.chunk(0))(1, 100, 100, 110, 110),
        type(index.chunk(0))(2, 200, 50, 220, 80),
    ]
    assert index.stored_size == 300
    assert index.chunks_of(0, 1) == range(1)
    assert index.chunks_of(99, 101) == range(2)
    assert index.chunks_of(100, 200) == range(1, 2)
    assert index.chunks_of(240, 10**12) == range(2, 3)
    assert index.chunks_of(250, 300) == range(0)


def test_an_empty_segment_has_no_chunks() -> None:
    index = ChunkIndex.fixed(100, 0, 0, 0)
    assert (index.count, index.stored_size, index.chunks_of(0, 10)) == (0, 0, range(0))
    with pytest.raises(IndexError):
        index.chunk(0)


@pytest.mark.parametrize(
    ("packed", "sizes"),
    [
        (struct.pack(">i", 0), ()),
        (struct.pack(">ii", 1, 213), (213,)),
        (
            struct.pack(">iib", 5, 0, 2) + struct.pack(">4H", 0, 1000, 2, 44002) + struct.pack(">i", 369),
            (0, 1000, 2, 44002, 369),
        ),
        (struct.pack(">iib", 3, 70000, 3) + b"\0\0\0\x01\0\0" + struct.pack(">i", 7), (70000, 135536, 7)),
    ],
)
def test_lists_of_sizes_have_one_width_for_all_differences(packed: bytes, sizes: tuple[int, ...]) -> None:
    assert stored_sizes(packed) == sizes
    assert remote_objects.size_list(sizes) == packed


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"\0\0\0",
        struct.pack(">i", -1),
        struct.pack(">ii", 0, 1),
        struct.pack(">i", 1),
        struct.pack(">ii", 1, -5),
        struct.pack(">ii", 2, 5),
        struct.pack(">iib", 2, 5, 0) + struct.pack(">i", 1),
        struct.pack(">iib", 2, 5, 5) + bytes(5) + struct.pack(">i", 1),
        struct.pack(">iib", 2**31 - 1, 5, 4) + bytes(64),
        struct.pack(">iib", 2, 2**31 - 1, 4) + b"\xff" * 4 + struct.pack(">i", 1),
        struct.pack(">iib", 2, -9, 1) + b"\1" + struct.pack(">i", 1),
    ],
)
def test_a_list_of_sizes_that_contradicts_itself_is_refused(packed: bytes) -> None:
    with pytest.raises(CorruptIndexError):
        stored_sizes(packed)


def _changed(stored: remote_objects.StoredSegment, **fields: Any) -> bytes:
    manifest = json.loads(stored.manifest)
    for path, value in fields.items():
        *names, last = path.split("__")
        place = manifest
        for name in names:
            place = place[name]
        place[last] = value
    return json.dumps(manifest).encode()


FIXED = remote_objects.stored_segment(LOG, INDEXES, chunk_size=1000)
PACKED = remote_objects.stored_segment(LOG, INDEXES, chunk_size=1000, compressed=True)


@pytest.mark.parametrize(
    "fields",
    [
        {"chunkIndex__originalFileSize": 2**31},
        {"chunkIndex__originalFileSize": -1},
        {"chunkIndex__originalFileSize": True},
        {"chunkIndex__originalFileSize": 2400.0},
        {"chunkIndex__originalChunkSize": 0},
        {"chunkIndex__originalChunkSize": 2**30},
        {"chunkIndex__originalChunkSize": 2**30 - 1, "chunkIndex__originalFileSize": 2**31 - 1},
        {"chunkIndex__originalChunkSize": 1, "chunkIndex__originalFileSize": 2**31 - 1},
        {"chunkIndex__transformedChunkSize": 999},
        {"chunkIndex__finalTransformedChunkSize": 401},
        {"chunkIndex__transformedChunkSize": 2**31 - 1},
        {"chunkIndex": []},
        {"chunkIndex": None},
        {"segmentIndexes": None},
        {"segmentIndexes__offset": 3},
        {"segmentIndexes__offset": {"position": 0, "size": 2**31 - 1}},
        {"segmentIndexes__offset": {"position": -1, "size": 1}},
        {"compression": None},
        {"encryption": "none"},
        {"encryption": {"dataKey": "no colon", "aad": ""}},
        {"encryption": {"dataKey": "id:AA==", "aad": 5}},
        {"encryption": {"dataKey": "id:A", "aad": ""}},
    ],
)
def test_a_manifest_that_lies_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(CorruptIndexError):
        parse_manifest(_changed(FIXED, **fields))


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b'{"version": "1", "compression": ' + b"9" * 10_000 + b"}"],
    ids=["empty", "array", "cut", "not-text", "nested", "long-number"],
)
def test_a_manifest_that_is_no_object_is_refused(content: bytes) -> None:
    with pytest.raises(CorruptIndexError):
        parse_manifest(content)


def test_a_manifest_of_very_many_lists_is_refused_before_it_is_parsed() -> None:
    content = b'{"a": [' + b"{}," * 500_000 + b"{}]}"
    tracemalloc.start()
    try:
        with pytest.raises(CorruptIndexError, match="objects and lists"):
            parse_manifest(content)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_another_size_of_the_stored_object_is_refused() -> None:
    chunks = parse_manifest(FIXED.manifest).chunks
    chunks.refuse_other_size(2400)
    with pytest.raises(CorruptIndexError, match="2400 stored bytes, the object has 2399"):
        chunks.refuse_other_size(2399)


def test_a_list_of_sizes_that_expands_without_end_is_stopped() -> None:
    bomb = zstandard.compress(bytes(50_000_000))
    with pytest.raises(CorruptIndexError, match="cannot be decompressed"):
        parse_manifest(_changed(PACKED, chunkIndex__transformedChunks=base64.b64encode(bomb).decode()))


def test_a_list_of_another_number_of_chunks_is_refused() -> None:
    packed = base64.b64encode(zstandard.compress(struct.pack(">ii", 1, 20))).decode()
    with pytest.raises(CorruptIndexError, match="has 1 chunks; a segment of 2400 bytes has 3"):
        parse_manifest(_changed(PACKED, chunkIndex__transformedChunks=packed))


@pytest.mark.parametrize("fields", [{"version": "2"}, {"version": 1}, {"chunkIndex__type": "other"}])
def test_other_versions_are_refused_by_name(fields: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedFormatError):
        parse_manifest(_changed(FIXED, **fields))


def test_segments_of_iceberg_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedFormatError, match=r"segment\.format: iceberg"):
        parse_manifest(_changed(FIXED, segmentFormat="iceberg"))


def _one_chunk(manifest: SegmentManifest, content: bytes, cipher: ChunkCipher | None = None) -> bytes:
    return _chunk(content, manifest.chunks.chunk(0), manifest, cipher)


def test_a_chunk_that_expands_without_end_is_stopped() -> None:
    bomb = zstandard.compress(bytes(50_000_000))
    stored = remote_objects.stored_segment(bytes(1_500_000), {}, chunk_size=1_500_000, compressed=True)
    manifest = parse_manifest(
        _changed(
            stored,
            chunkIndex__type="fixed",
            chunkIndex__transformedChunkSize=len(bomb),
            chunkIndex__finalTransformedChunkSize=len(bomb),
        )
    )
    with pytest.raises(CorruptChunkError, match="chunk 0 cannot be decompressed"):
        _one_chunk(manifest, bomb)


def test_a_chunk_of_another_size_is_refused() -> None:
    manifest = parse_manifest(PACKED.manifest)
    short = zstandard.compress(LOG[:999])
    size = manifest.chunks.chunk(0).stored_size
    with pytest.raises(CorruptChunkError, match=rf"chunk 0 has {len(short) + 500} bytes of {size}"):
        _one_chunk(manifest, short + bytes(500))
    stored = remote_objects.stored_segment(LOG[:999], {}, chunk_size=1000, compressed=True)
    manifest = parse_manifest(_changed(stored, chunkIndex__originalFileSize=1000))
    with pytest.raises(CorruptChunkError, match="gives 999 bytes of the segment, the manifest says 1000"):
        _one_chunk(manifest, stored.log)


def _of_one_chunk(*frames: bytes) -> tuple[SegmentManifest, bytes]:
    """The manifest of a segment of `LOG` in one chunk, which is stored as these bytes; and the bytes."""
    content = b"".join(frames)
    stored = remote_objects.stored_segment(LOG, {}, chunk_size=len(LOG), compressed=True)
    sizes = {"transformedChunkSize": len(content), "finalTransformedChunkSize": len(content)}
    changed = {f"chunkIndex__{name}": size for name, size in sizes.items()}
    return parse_manifest(_changed(stored, chunkIndex__type="fixed", **changed)), content


_FRAME = zstandard.ZstdCompressor(write_checksum=True).compress(LOG)
_FLUSHED = zstandard.ZstdCompressor().compressobj(size=len(LOG))
_OF_SMALL_BLOCKS = (
    b"".join(
        _FLUSHED.compress(LOG[at : at + 20]) + _FLUSHED.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        for at in range(0, len(LOG), 20)
    )
    + _FLUSHED.flush()
)


@pytest.mark.parametrize(
    "frames",
    [
        [_FRAME],
        [_OF_SMALL_BLOCKS],
        [zstandard.compress(LOG[:1000]), zstandard.compress(LOG[1000:])],
        [zstandard.ZstdCompressor(write_content_size=False).compress(LOG)],
        [zstandard.ZstdCompressor(level=19).compress(LOG)],
    ],
    ids=["checksum", "small-blocks", "two-frames", "no-size", "level-19"],
)
def test_other_frames_than_the_plugins_give_the_same_bytes(frames: list[bytes]) -> None:
    assert _one_chunk(*_of_one_chunk(*frames)) == LOG


@pytest.mark.parametrize("end", [b"(", b"\0", b"(\xb5/", b"\x28\xb5\x2f\xfd", bytes(100), zstandard.compress(b"more")])
def test_bytes_after_the_frame_of_a_chunk_are_refused(end: bytes) -> None:
    for frame in (_FRAME, zstandard.compress(LOG)):
        with pytest.raises(CorruptChunkError, match="chunk 0 cannot be decompressed"):
            _one_chunk(*_of_one_chunk(frame, end))


def test_a_frame_whose_last_block_is_missing_is_refused() -> None:
    """All its bytes are there, and the frame does not end."""
    writer = zstandard.ZstdCompressor().compressobj(size=len(LOG))
    frame = writer.compress(LOG) + writer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) + writer.flush()
    assert frame.endswith(b"\x01\0\0")
    assert _one_chunk(*_of_one_chunk(frame)) == LOG
    with pytest.raises(CorruptChunkError, match="chunk 0 cannot be decompressed: zstd: the stream ends early"):
        _one_chunk(*_of_one_chunk(frame[:-3]))


def test_no_byte_of_a_damaged_frame_is_given() -> None:
    for at in range(len(_FRAME)):
        changed = bytearray(_FRAME)
        changed[at] ^= 0x10
        with contextlib.suppress(CorruptChunkError):
            assert _one_chunk(*_of_one_chunk(bytes(changed))) == LOG  # a bit without a meaning
    for end in range(len(_FRAME)):
        with pytest.raises(CorruptChunkError):
            _one_chunk(*_of_one_chunk(_FRAME[:end]))


@pytest.mark.parametrize("at", [0, 11, 12, 500, 1027])
def test_a_chunk_of_which_one_bit_changed_does_not_decrypt(at: int) -> None:
    stored = remote_objects.stored_segment(LOG, {}, chunk_size=1000, is_encrypted=True)
    manifest = parse_manifest(stored.manifest)
    content = bytearray(stored.log[:1028])
    content[at] ^= 1
    with pytest.raises(CorruptChunkError, match="does not decrypt") as caught:
        _one_chunk(manifest, bytes(content), _cipher(manifest))
    assert caught.value.position == 0


def test_a_chunk_of_another_key_or_segment_does_not_decrypt() -> None:
    stored = remote_objects.stored_segment(LOG, {}, chunk_size=1000, is_encrypted=True)
    manifest = parse_manifest(stored.manifest)
    for cipher in (ChunkCipher(bytes(32), remote_objects.AAD), ChunkCipher(remote_objects.AES_KEY, bytes(32))):
        with pytest.raises(CorruptChunkError, match="does not decrypt"):
            _one_chunk(manifest, stored.log[:1028], cipher)


def test_a_missing_or_wrong_private_key_is_said_by_its_id() -> None:
    from cryptography.hazmat.primitives.asymmetric import rsa

    stored = remote_objects.stored_segment(LOG, {}, chunk_size=1000, is_encrypted=True)
    encryption = parse_manifest(stored.manifest).encryption
    assert encryption is not None
    with pytest.raises(LogError, match="'static-key-id', which was not given"):
        PrivateKeys({}).cipher(encryption)
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    both = "does not decrypt the key of the segment: the private key is of another pair, or dataKey in the manifest was"
    with pytest.raises(SegmentKeyError, match=f"{both} changed") as caught:
        PrivateKeys({remote_objects.KEY_ID: other}).cipher(encryption)
    assert "has the private key of this ID" in str(caught.value)
    assert "compare the manifest with another copy" in str(caught.value)
    longer = rsa.generate_private_key(public_exponent=65537, key_size=3072)
    with pytest.raises(SegmentKeyError, match="dataKey has 256 bytes, and the private key is for 384"):
        PrivateKeys({remote_objects.KEY_ID: longer}).cipher(encryption)
    assert not isinstance(caught.value, CorruptChunkError), "the key may be the wrong one, and no chunk damaged"


@pytest.mark.parametrize("content", [b"", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_a_file_without_a_private_key_is_refused_without_its_contents(content: bytes) -> None:
    with pytest.raises(LogError, match="not a private key") as caught:
        read_private_key(content)
    assert "AAAA" not in str(caught.value)


def test_keys_have_no_representation_as_text() -> None:
    manifest = parse_manifest(remote_objects.stored_segment(LOG, {}, chunk_size=1000, is_encrypted=True).manifest)
    cipher = _cipher(manifest)
    shown = f"{manifest!r} {cipher!r} {PrivateKeys({})!r}"
    assert remote_objects.AES_KEY.hex() not in shown
    assert repr(remote_objects.AES_KEY) not in shown
    assert remote_objects.WRAPPED_KEY not in shown
