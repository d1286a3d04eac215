"""Which manifests need not be read: those that a lake has registered, of the objects as they are listed now."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from logcore.remote.aiven_layout import part_of
from logcore.remote.chunked.chunk_map import ChunkMap, RegisteredObject, packed
from logcore.remote.chunked.segment_manifest import parse_manifest
from logcore.remote.stored_part import RemoteObject
from logcore.storage.remote_tier.known_manifests import known_manifest
from logcore.storage.source_errors import SourceUnreadable
from tests import remote_objects

NAME = "orders-GW-1GPphSsCFtpdS005Bug/0/00000000000000000000-Zs2vpUXwT1WTbYAIMD4Ahg"
STORED = remote_objects.stored_segment(bytes(1000), {}, chunk_size=300, compressed=True)


def listed(root: Path, suffix: str, size: int, etag: str) -> RemoteObject:
    path = f"{root}/{NAME}{suffix}"
    part = part_of(path)
    assert part is not None
    return RemoteObject(path, part, size, 7, etag=etag)


@pytest.fixture
def objects(tmp_path: Path) -> tuple[RemoteObject, RemoteObject]:
    """The objects `.log` and `.rsm-manifest` as they were listed. They are gone, so a read of the manifest fails."""
    return listed(tmp_path, ".log", len(STORED.log), "log-1"), listed(tmp_path, ".rsm-manifest", 5, "manifest-1")


def of(log: RemoteObject, etag: str, version: str, manifest: bytes = STORED.manifest) -> dict[str, RegisteredObject]:
    """What a lake has registered of an object, with the map of a manifest."""
    return {log.path: RegisteredObject(etag, packed(ChunkMap(parse_manifest(manifest), version)))}


def test_the_manifest_of_a_registered_object_is_known(objects: tuple[RemoteObject, RemoteObject]) -> None:
    log, manifest = objects
    known = known_manifest(log, manifest, of(log, "log-1", "manifest-1"))
    assert known.manifest == parse_manifest(STORED.manifest)
    assert known.chunk_map == of(log, "log-1", "manifest-1")[log.path].chunk_map


def test_files_of_a_directory_are_known_by_size_and_time(objects: tuple[RemoteObject, RemoteObject]) -> None:
    log, manifest = (replace(each, etag=None) for each in objects)
    registered = of(log, f"file of {log.size} bytes at 7", "file of 5 bytes at 7")
    assert known_manifest(log, manifest, registered).manifest == parse_manifest(STORED.manifest)
    with pytest.raises(SourceUnreadable):
        known_manifest(log, replace(manifest, modified_ms=8), registered)


@pytest.mark.parametrize(
    ("etag", "version"),
    [("log-2", "manifest-1"), ("log-1", "manifest-2"), ("", "manifest-1")],
    ids=["another_etag", "another_manifest", "no_etag"],
)
def test_a_map_of_another_etag_is_not_used(objects: tuple[RemoteObject, RemoteObject], etag: str, version: str) -> None:
    log, manifest = objects
    with pytest.raises(SourceUnreadable, match="rsm-manifest"):
        known_manifest(log, manifest, of(log, etag, version))


@pytest.mark.parametrize("content", [None, b"", b"\1\0"], ids=["none", "empty", "cut"])
def test_a_map_that_cannot_be_used_is_not(objects: tuple[RemoteObject, RemoteObject], content: bytes | None) -> None:
    log, manifest = objects
    with pytest.raises(SourceUnreadable, match="rsm-manifest"):
        known_manifest(log, manifest, {log.path: RegisteredObject("log-1", content)})


def test_a_map_of_another_size_than_the_object_is_not_used(objects: tuple[RemoteObject, RemoteObject]) -> None:
    log, manifest = objects
    other = remote_objects.stored_segment(bytes(1300), {}, chunk_size=300, compressed=True).manifest
    with pytest.raises(SourceUnreadable, match="rsm-manifest"):
        known_manifest(log, manifest, of(log, "log-1", "manifest-1", other))


def test_a_manifest_that_is_read_gives_its_map(tmp_path: Path) -> None:
    log, manifest = listed(tmp_path, ".log", len(STORED.log), ""), listed(tmp_path, ".rsm-manifest", 5, "")
    Path(manifest.path).parent.mkdir(parents=True)
    Path(manifest.path).write_bytes(STORED.manifest)
    known = known_manifest(log, manifest, {})
    assert known.manifest == parse_manifest(STORED.manifest)
    assert known.chunk_map == of(log, "", "file of 5 bytes at 7")[log.path].chunk_map
    Path(manifest.path).write_bytes(b"{}")
    with pytest.raises(SourceUnreadable, match="rsm-manifest"):
        known_manifest(log, manifest, {})
