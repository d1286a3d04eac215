"""A segment that Aiven's plugin stored, as a file that is open for reading.

Its path is that of the object `.log`, and its bytes are those of the segment. A read fetches whole chunks, and only
those that it touches. The chunk that was read last is kept: readers of headers read small pieces in order.

What is known of the chunks comes from the manifest, or from a chunk map that a lake has registered: then no manifest is
read. Bytes that do not decrypt, or are not what is known, are `SourceUnreadable`: they are never returned in part. Only
after such an error of a registered map the manifest is read, to say which of them is wrong.

RSA private keys of encrypted segments, from files that the environment names.

``LOGLAKE_REMOTE_KEYS`` is a list of ID=FILE with commas between. The ID is the one that the plugin has for its key
(`encryption.key.pair.id`); FILE has the private key in PEM. Keys are never arguments, because arguments are seen in the
list of processes.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, replace

from logcore.errors import CorruptIndexError, LogError
from logcore.remote import aiven_layout
from logcore.remote.chunked.chunk_map import unpacked
from logcore.remote.chunked.chunks import ChunkCipher, PrivateKeys, fill_from_chunk, index_contents, read_private_key
from logcore.remote.chunked.segment_manifest import MOST_MANIFEST_BYTES, SegmentChunk, SegmentManifest, parse_manifest
from logcore.remote.stored_part import SegmentPart
from logcore.storage.files import read_file
from logcore.storage.objects.addresses import is_object
from logcore.storage.objects.object_reads import PART_BYTES, ObjectVersion, part_threads, whole_object
from logcore.storage.opened_file import OpenedFile
from logcore.storage.source_errors import SourceChanged, SourceUnreadable, shown

KEYS_VARIABLE = "LOGLAKE_REMOTE_KEYS"
_MOST_KEY_BYTES = 1 << 16


def private_keys() -> PrivateKeys:
    """Read the keys that the environment names.

    Raises:
        LogError: The variable is not a list of ID=FILE, or a file is no RSA private key.
    """
    return _private_keys(os.environ.get(KEYS_VARIABLE, ""))


@functools.lru_cache(maxsize=4)
def _private_keys(given: str) -> PrivateKeys:
    keys = {}
    for each in filter(None, (part.strip() for part in given.split(","))):
        key_id, equals, path = each.partition("=")
        if not equals or not key_id or not path:
            raise LogError(f"{KEYS_VARIABLE} is not a list of ID=FILE with commas between", advice="Correct it.")
        try:
            keys[key_id] = read_private_key(read_file(path, _MOST_KEY_BYTES))
        except LogError as error:
            message = f"{KEYS_VARIABLE} names {shown(path)} for the key {key_id!r}: {error.message}"
            raise LogError(message, advice="Correct the file, or what the variable says.") from error
    return PrivateKeys(keys)


_MOST_REQUESTED = 64 << 20
"""Bytes of the segment whose chunks may wait for a read, several times what a reader requests ahead. A reader that
jumps leaves some unread: the oldest are dropped."""

Opener = Callable[[str, ObjectVersion | None], OpenedFile]
"""Opens an object by its path, of a version if one is known. Raises SourceUnreadable."""


def is_chunked_segment(path: str) -> bool:
    """Whether a path is that of a segment in chunks."""
    part = aiven_layout.part_of(path)
    return part is not None and part.part is SegmentPart.LOG


class ChunkedSegment(OpenedFile):
    """A segment in chunks, as a file with the bytes of the segment. It has no holes.

    Args:
        path: Of its object `.log`.
        opener: Opens objects.
        etag: Names the content of the object when it was listed; None: it is used as it is now.
        modified_ms: When the object was written, as it was listed.
        chunk_map: What the manifest of the object with this ETag says; None: the manifest is read.

    Raises:
        SourceUnreadable: The segment or its manifest does not exist, or they do not fit each other.
        SourceChanged: The object is another one than was listed.
    """

    def __init__(
        self,
        path: str,
        opener: Opener,
        etag: str | None = None,
        modified_ms: int = 0,
        chunk_map: bytes | None = None,
    ) -> None:
        self.manifest = read_manifest(path) if chunk_map is None else _registered(path, chunk_map)
        super().__init__(path, self.manifest.chunks.segment_size)
        self.unit_bytes, self._is_registered = self.manifest.chunks.chunk_size, chunk_map is not None
        stored_size = self.manifest.chunks.stored_size
        self._opener, self._version = opener, None if etag is None else ObjectVersion(stored_size, modified_ms, etag)
        self._stored = opener(path, self._version)
        self.is_remote = self._stored.is_remote
        self._cipher: ChunkCipher | None = None
        self._last: tuple[int, memoryview] | None = None
        self._lock = threading.Lock()
        self._requested: dict[int, _Request] = {}
        """By the number of a chunk: the request that was sent for it ahead of a read."""
        try:
            self.manifest.chunks.refuse_other_size(self._stored.size)
        except LogError as error:
            self._stored.close()
            raise self._explained(error) from error

    def read(self, size: int, position: int) -> bytes:
        """Read at most `size` bytes of the segment.

        Raises:
            SourceUnreadable: The chunks cannot be read, decrypted or decompressed.
            SourceChanged: Another object took its name.
        """
        end = min(position + size, self.size)
        parts = self._parts(position, end)
        return b"".join(
            self._kept(part)[max(position - part.chunk.position, 0) : end - part.chunk.position] for part in parts
        )

    def fill(self, target: memoryview, position: int, gone: Callable[[int, int], bool]) -> None:
        """Read into the whole target. Raises as `read`.

        A chunk that lies in the target becomes its bytes there, and is not kept.
        """
        end = min(position + len(target), self.size)
        for part in self._parts(position, end):
            begin, after = part.chunk.position, part.chunk.position + part.chunk.size
            low, high = max(begin, position), min(after, end)
            with target[low - position : high - position] as place:
                if part.is_stored and (low, high) == (begin, after):
                    self._decode(place, part)
                else:
                    place[:] = self._kept(part)[low - begin : high - begin]
        done = max(end - position, 0)
        if done < len(target):
            message = f"it ends at byte {position + done}, {len(target) - done} bytes early"
            raise SourceChanged(message, file=shown(self.path), position=position + done)

    def request(self, start: int, end: int) -> None:
        """Request the stored bytes of start..end, which are read soon, in other threads. No chunk is decoded."""
        numbers = self.manifest.chunks.chunks_of(start, min(end, self.size))
        with self._lock:
            at = numbers.start
            while at < numbers.stop:
                if at in self._requested:
                    at += 1
                    continue
                until = self._together(at, numbers.stop)
                first, size = self._stored_range(at, until)
                request = _Request(first, part_threads().submit(self._view, size, first))
                self._requested.update(dict.fromkeys(range(at, until), request))
                at = until
            while len(self._requested) * self.unit_bytes > max(_MOST_REQUESTED, 2 * self.unit_bytes):
                self._requested.pop(next(iter(self._requested)))

    def refuse_change(self, *, sealed: bool, least_size: int | None = None, advice: str | None = None) -> None:
        """Raise SourceChanged if the object changed since it was opened. It was complete when it got its name."""
        self._stored.refuse_change(sealed=True, advice=advice)

    def close(self) -> None:
        """Close it."""
        self._stored.close()
        self._last = None
        with self._lock:
            self._requested.clear()

    def _parts(self, start: int, end: int) -> Iterator[_Part]:
        """The chunks with bytes start..end, in order. Chunks that follow each other are fetched together."""
        chunks, numbers = self.manifest.chunks, self.manifest.chunks.chunks_of(start, end)
        at = numbers.start
        while at < numbers.stop:
            last = self._last  # another thread may replace it
            if last is not None and last[0] == at:
                yield _Part(chunks.chunk(at), last[1], is_stored=False)
                at += 1
                continue
            with self._lock:
                request = self._requested.pop(at, None)
                until = at + 1 if request is not None else self._together(at, numbers.stop)
            first, size = self._stored_range(at, until)
            stored = None if request is None else request.content(first, size)
            if stored is None:
                stored = self._view(size, first)
            for number in range(at, until):
                chunk = chunks.chunk(number)
                low = chunk.stored_position - first
                yield _Part(chunk, stored[low : low + chunk.stored_size], is_stored=True)
            at = until

    def _together(self, at: int, stop: int) -> int:
        """The end of the chunks from `at` on that one request fetches. Call it with the lock."""
        chunks, until = self.manifest.chunks, at + 1
        first = chunks.chunk(at).stored_position
        while until < stop and until not in self._requested and chunks.chunk(until).stored_end - first <= PART_BYTES:
            until += 1
        return until

    def _stored_range(self, at: int, until: int) -> tuple[int, int]:
        """Position and size of the chunks at..until in the object."""
        chunks = self.manifest.chunks
        first = chunks.chunk(at).stored_position
        return first, chunks.chunk(until - 1).stored_end - first

    def _kept(self, part: _Part) -> memoryview:
        """The bytes of the segment in a chunk, which is kept."""
        if not part.is_stored:
            return part.content
        content = memoryview(bytearray(part.chunk.size))
        self._decode(content, part)
        self._last = (part.chunk.number, content)
        return content

    def _view(self, size: int, position: int) -> memoryview:
        try:
            return self._stored.view(size, position)
        except SourceChanged:
            if not self._fits_manifest():
                raise
            wrong = CorruptIndexError(f"{_OTHER_MAP}: the object has another size than the map says")
            raise SourceUnreadable(wrong.message, file=shown(self.path), advice=_RESTORE) from wrong

    def _decode(self, target: memoryview, part: _Part) -> None:
        try:
            if self._cipher is None:
                self._cipher = self._new_cipher()
            fill_from_chunk(target, part.content, part.chunk, self.manifest, self._cipher)
        except LogError as error:
            raise self._explained(error) from error

    def _new_cipher(self) -> ChunkCipher | None:
        """Decrypt the key of the segment. Its manifest may have been written again since, for another RSA key."""
        try:
            return cipher_of(self.manifest)
        except LogError:
            now = self._manifest_now()
            if now is None or now.chunks != self.manifest.chunks or now.encryption == self.manifest.encryption:
                raise
            return cipher_of(now)

    def _explained(self, error: LogError) -> SourceUnreadable:
        """The error of a chunk or of its place. It says so if the registered map is not that of the manifest."""
        if self._is_other_map():
            message, advice = f"{_OTHER_MAP}: {error.message}", _RESTORE
        else:
            message, advice = error.message, error.advice or _COMPARE
        return SourceUnreadable(message, file=shown(self.path), position=error.position, advice=advice)

    def _is_other_map(self) -> bool:
        """Whether the registered chunk map says something else than the manifest."""
        now = self._manifest_now()
        return now is not None and now != self.manifest

    def _fits_manifest(self) -> bool:
        """Whether the object has its ETag and the size that the manifest says, which is another than in the map."""
        now = self._manifest_now()
        if now is None or self._version is None or now.chunks.stored_size == self._version.size:
            return False
        try:
            with closing(self._opener(self.path, replace(self._version, size=now.chunks.stored_size))) as stored:
                return bool(stored.read(1, 0))
        except LogError:
            return False

    def _manifest_now(self) -> SegmentManifest | None:
        """The manifest; None if it is known anyway, or cannot be read."""
        if not self._is_registered:
            return None
        try:
            return read_manifest(self.path)
        except LogError:
            return None


@dataclass(frozen=True, slots=True)
class _Part:
    """A chunk, and its content: as it is stored, or bytes of the segment."""

    chunk: SegmentChunk
    content: memoryview
    is_stored: bool


@dataclass(frozen=True, slots=True)
class _Request:
    """A request for stored bytes from a position on."""

    position: int
    stored: Future[memoryview]

    def content(self, position: int, size: int) -> memoryview | None:
        """Stored bytes of it; None if it failed: the reader sends the request again and meets the error."""
        try:
            stored = self.stored.result()
        except LogError:
            return None
        return stored[position - self.position : position - self.position + size]


def _registered(path: str, chunk_map: bytes) -> SegmentManifest:
    """What a registered chunk map says.

    Raises:
        SourceUnreadable: It cannot be one.
    """
    try:
        return unpacked(chunk_map).manifest
    except LogError as error:
        message = f"its registered chunk map cannot be used: {error.message}"
        raise SourceUnreadable(message, file=shown(path), advice=_RESTORE) from error


def read_stored(path: str, limit: int | None = None) -> bytes:
    """Read a whole small file or object as it is stored; an object with one request.

    Raises:
        SourceUnreadable: It cannot be read, or has more than `limit` bytes.
    """
    if not is_object(path):
        return read_file(path, limit)
    try:
        return whole_object(path, limit)
    except FileNotFoundError as error:
        raise SourceUnreadable("it is not there.", file=shown(path)) from error


def read_manifest(path: str) -> SegmentManifest:
    """Read the manifest of a segment.

    Args:
        path: Of any object of the segment.

    Raises:
        SourceUnreadable: It does not exist, cannot be read, or is not a manifest that can be used.
    """
    name = aiven_layout.beside(path, SegmentPart.MANIFEST)
    content = read_stored(name, MOST_MANIFEST_BYTES)
    try:
        return parse_manifest(content)
    except LogError as error:
        raise SourceUnreadable(error.message, file=shown(name), advice=error.advice) from error


def read_index(path: str, part: SegmentPart, opener: Opener) -> bytes | None:
    """Read an index of a segment; None if it has none of this kind.

    Args:
        path: Of any object of the segment.
        part: Which one.
        opener: Opens objects.

    Raises:
        SourceUnreadable: It cannot be read or decrypted, or does not lie in its object.
    """
    manifest = read_manifest(path)
    place = manifest.indexes.get(part)
    if place is None:
        return None
    name = aiven_layout.beside(path, SegmentPart.INDEXES)
    with closing(opener(name, None)) as file:
        if place.position + place.size > file.size:
            message = f"the manifest describes an index up to byte {place.position + place.size} of {file.size}"
            raise SourceUnreadable(message, file=shown(name), advice=_COMPARE)
        content = file.read(place.size, place.position)
    try:
        return index_contents(content, f"the {part}", cipher_of(manifest))
    except LogError as error:
        raise SourceUnreadable(error.message, file=shown(name), advice=error.advice or _COMPARE) from error


def cipher_of(manifest: SegmentManifest) -> ChunkCipher | None:
    """Decrypt the key of a segment; None without encryption.

    Raises:
        LogError: The key is not given, or is another one.
    """
    return None if manifest.encryption is None else private_keys().cipher(manifest.encryption)


_COMPARE = "Compare the objects of the segment with another copy of the remote storage."
_OTHER_MAP = "its registered chunk map is not that of its manifest"
_RESTORE = (
    "Restore the table `segments` of the lake from a copy, or take the log again into a new lake. "
    "`loglake verify LAKE` names all such segments."
)
