"""Chunk maps that a lake registers: their bytes, what readers get back, and maps that lie."""

from __future__ import annotations

import base64
import json
import random
import struct
from dataclasses import replace
from typing import Any

import pytest

from logcore.errors import CorruptIndexError
from logcore.remote.chunked.chunk_map import MOST_MAP_BYTES, ChunkMap, packed, unpacked
from logcore.remote.chunked.segment_manifest import ChunkIndex, parse_manifest, size_list
from tests import remote_objects

INDEXES = {"offset": b"o" * 16, "producerSnapshot": b"", "leaderEpoch": b"0\n1\n0 0\n"}
LOG = bytes(1000) + bytes(range(256)) * 4
DESCRIBED = {"startOffset": 7, "endOffset": 19, "segmentLeaderEpochs": {"3": 7, "12": 9}}
FORMS = [
    {"compressed": compressed, "is_encrypted": is_encrypted, "variable": variable}
    for compressed in (False, True)
    for is_encrypted in (False, True)
    for variable in (False, True)
    if variable or not compressed
]


def manifest_of(**options: Any) -> bytes:
    """A manifest as the plugin writes it."""
    stored = remote_objects.stored_segment(LOG, INDEXES, chunk_size=300, **options)
    return json.dumps(json.loads(stored.manifest) | {"remoteLogSegmentMetadata": DESCRIBED}).encode()


def sized(content: bytes) -> bytes:
    """Bytes with their number before them."""
    return struct.pack(">i", len(content)) + content


def whole(manifest: bytes, version: bytes) -> bytes:
    """The map of a manifest, by the layout that its module states."""
    said = json.loads(manifest)
    chunks, places, keys = said["chunkIndex"], said["segmentIndexes"], said.get("encryption")
    sizes: bytes | None = None
    stored = (chunks.get("transformedChunkSize", 0), chunks.get("finalTransformedChunkSize"))
    if chunks["type"] == "variable":
        import zstandard

        sizes = zstandard.ZstdDecompressor().decompress(base64.b64decode(chunks["transformedChunks"]))
        stored = (0, struct.unpack(">i", sizes[-4:])[0])
    flags = said["compression"] | (keys is not None) << 1 | (sizes is not None) << 2 | 8
    content = bytes([1, flags]) + sized(version)
    content += struct.pack(">4i", chunks["originalChunkSize"], chunks["originalFileSize"], *stored)
    content += b"" if sizes is None else sized(sizes)
    content += bytes([0b01101])  # offset index, producer snapshot, leader epochs
    for name in ("offset", "producerSnapshot", "leaderEpoch"):
        content += struct.pack(">2i", places[name]["position"], places[name]["size"])
    if keys is not None:
        key_id, _, wrapped = keys["dataKey"].rpartition(":")
        content += sized(key_id.encode()) + sized(base64.b64decode(wrapped)) + sized(base64.b64decode(keys["aad"]))
    return content + struct.pack(">2qi4q", 7, 19, 2, 3, 7, 12, 9)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_map_has_what_readers_need_of_its_manifest(form: dict[str, bool]) -> None:
    manifest = manifest_of(**form)
    ours = ChunkMap(parse_manifest(manifest), '"0ff1ce"')
    content = packed(ours)
    assert content == whole(manifest, b'"0ff1ce"')
    assert unpacked(content) == ours


def test_sizes_of_chunks_are_listed_as_the_plugin_lists_them() -> None:
    dice = random.Random(7)
    for count in (0, 1, 2, 3, 250):
        for most in (0, 1, 255, 256, 70_000, 20_000_000):
            sizes = [dice.randint(0, most) for _ in range(count)]
            assert size_list(sizes) == remote_objects.size_list(sizes)


def test_a_map_has_the_wrapped_key_and_no_plain_one() -> None:
    content = packed(ChunkMap(parse_manifest(manifest_of(is_encrypted=True)), "v"))
    assert content is not None
    assert base64.b64decode(remote_objects.WRAPPED_KEY) in content
    assert remote_objects.AES_KEY not in content
    assert "wrapped" not in repr(unpacked(content))


def test_a_map_of_very_many_chunks_is_not_made_and_none_is_read() -> None:
    sizes = tuple(number * 7919 % 4096 for number in range(MOST_MAP_BYTES // 2))
    chunks = ChunkIndex.variable(1024, 1024 * len(sizes), tuple(size % 1024 for size in sizes))
    many = ChunkMap(replace(parse_manifest(manifest_of(compressed=True)), chunks=chunks), "v")
    assert packed(many) is None
    with pytest.raises(CorruptIndexError, match="at most"):
        unpacked(bytes(MOST_MAP_BYTES + 1))


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_map_that_is_cut_or_goes_on_is_refused(form: dict[str, bool]) -> None:
    content = whole(manifest_of(**form), b"v")
    for end in range(len(content)):
        with pytest.raises(CorruptIndexError):
            unpacked(content[:end])
    with pytest.raises(CorruptIndexError, match="followed by 1 bytes"):
        unpacked(content + b"\0")


def test_a_changed_map_is_refused_or_says_what_is_possible() -> None:
    dice = random.Random(20)
    for form in FORMS:
        content = whole(manifest_of(**form), b"v")
        for _ in range(2_000):
            changed = bytearray(content)
            for _ in range(dice.randint(1, 4)):
                changed[dice.randrange(len(changed))] = dice.choice((0, 1, 127, 128, 255, dice.randrange(256)))
            try:
                chunks = unpacked(bytes(changed)).manifest.chunks
            except CorruptIndexError:
                continue
            assert chunks.count == 0 or chunks.chunk(chunks.count - 1).stored_end == chunks.stored_size


@pytest.mark.parametrize(
    ("at", "bytes_there", "match"),
    [
        (0, b"\2", "form 2"),
        (1, b"\x18", "flags 24"),
        (7, struct.pack(">i", 0), "not possible"),
        (7, struct.pack(">2i", 1 << 29, (1 << 31) - 1), "at most"),
        (7, struct.pack(">4i", 300, 2024, 301, 224), "without compression"),
        (7, struct.pack(">4i", 300, 2024, 300, 225), "without compression"),
        (7, struct.pack(">4i", 300, 2024, -1, 224), "cannot have the contents"),
        (23, b"\x20", "indexes 32"),
        (24, struct.pack(">2i", -1, 16), "index of 16 bytes at byte -1"),
        (24, struct.pack(">2i", 0, -1), "index of -1 bytes"),
        (48, struct.pack(">2q", 19, 7), "offsets that are not possible"),
        (64, struct.pack(">i", 1 << 30), "1073741824 leader epochs"),
    ],
)
def test_a_map_that_says_what_is_not_possible_is_refused(at: int, bytes_there: bytes, match: str) -> None:
    content = bytearray(whole(manifest_of(), b"v"))
    content[at : at + len(bytes_there)] = bytes_there
    with pytest.raises(CorruptIndexError, match=match):
        unpacked(bytes(content))


def test_two_sizes_of_the_last_chunk_are_refused() -> None:
    content = bytearray(whole(manifest_of(compressed=True), b"v"))
    content[19:23] = struct.pack(">i", 5)
    with pytest.raises(CorruptIndexError, match="two sizes"):
        unpacked(bytes(content))
