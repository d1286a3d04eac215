"""Manifests of segments in chunks that need not be read: a lake registered their contents, or this process has them.

A registered chunk map is used only for the object with the ETag of its row, and only while the manifest is the one that
it was made from. Both were just listed, so that costs no request. A map that cannot be used is ignored here, and the
manifest is read: readers of bytes by that map meet the error.

A run in rounds lists remote storage for each round. It registers the segments of one round only, so this process keeps
what the manifests in object stores say of the others.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from logcore.errors import LogError
from logcore.remote.chunked.chunk_map import ChunkMap, RegisteredObject, packed, unpacked
from logcore.remote.chunked.segment_manifest import SegmentManifest
from logcore.remote.stored_part import RemoteObject
from logcore.storage.remote_tier.chunked_segment import read_manifest

MOST_BYTES = 64 << 20
"""Bytes of chunk maps that this process keeps."""


@dataclass(frozen=True, slots=True)
class KnownManifest:
    """What a manifest says, and the same as a chunk map; None if that would be too large."""

    manifest: SegmentManifest
    chunk_map: bytes | None


@dataclass(slots=True)
class _Kept:
    """Chunk maps by the path and the ETag of the manifest."""

    maps: dict[tuple[str, str], bytes] = field(default_factory=dict)
    nbytes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, key: tuple[str, str], content: bytes) -> None:
        """Keep a map. If there is no room, all others are forgotten: most of them are registered by then."""
        with self.lock:
            if self.nbytes + len(content) > MOST_BYTES:
                self.maps.clear()
                self.nbytes = 0
            self.nbytes += len(content)
            self.maps[key] = content


_kept = _Kept()


def known_manifest(
    log: RemoteObject, manifest: RemoteObject, registered: Mapping[str, RegisteredObject]
) -> KnownManifest:
    """Return what the manifest of a segment says. It is read if that is not known.

    Args:
        log: The object `.log`, as it was listed.
        manifest: The object `.rsm-manifest`, as it was listed.
        registered: Objects that a lake has registered, by path.

    Raises:
        SourceUnreadable: The manifest has to be read, and that is not possible.
    """
    ours = registered.get(log.path)
    if ours is not None and ours.etag == log.version and ours.chunk_map is not None:
        known = _usable(ours.chunk_map, log, manifest)
        if known is not None:
            return known
    key = (manifest.path, manifest.etag or "")
    content = _kept.maps.get(key)
    if content is not None:
        return KnownManifest(unpacked(content).manifest, content)
    read = read_manifest(log.path)
    content = packed(ChunkMap(read, manifest.version))
    if content is not None and manifest.etag:
        _kept.keep(key, content)
    return KnownManifest(read, content)


def _usable(content: bytes, log: RemoteObject, manifest: RemoteObject) -> KnownManifest | None:
    """A registered map; None if it is of another manifest, or cannot be that of the object."""
    try:
        said = unpacked(content)
        said.manifest.chunks.refuse_other_size(log.size)
    except LogError:
        return None
    return KnownManifest(said.manifest, content) if said.manifest_version == manifest.version else None
