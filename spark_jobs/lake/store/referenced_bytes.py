"""Bytes that a lake refers to at their source: whether they are there and can be read now, and why not.

A lake may refer to segments in remote storage that this machine does not reach, or whose key it does not have. That is
no damage: such a segment is reported as not checked. So is one whose storage has no object of any segment: that is an
empty mount point, or another bucket. An object that is gone from a storage with others, or is another one, is damage.
That holds for the manifest of a segment in chunks too: without it nobody can read the segment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from logcore.errors import CorruptChunkError, CorruptIndexError, LogError, SegmentKeyError
from logcore.remote import aiven_layout
from logcore.remote.chunked.chunk_map import unpacked
from logcore.remote.stored_names import part_of
from logcore.remote.stored_part import RemoteLayout, SegmentPart
from logcore.segments.filenames import segment_base_offset
from logcore.storage.objects.addresses import is_object
from logcore.storage.remote_tier.chunked_segment import cipher_of, is_chunked_segment, read_manifest
from logcore.storage.remote_tier.remote_listing import has_segments
from logcore.storage.source_errors import SourceChanged, shown
from logcore.texts import shell_word
from spark_jobs.errors import JobError, StorageError
from spark_jobs.lake.store import storage
from spark_jobs.lake.store.silent_paths import is_silent

_FOLDERS = {RemoteLayout.LOCAL_TIERED_STORAGE: 1, RemoteLayout.AIVEN: 2}
"""Directories between the root of remote storage and an object, by layout."""


class NotReachable(Exception):
    """Bytes at a source cannot be read now; the text says why. They may be as they were."""


def stored_size(path: str) -> int | None:
    """Return the size of a file at a source with the bytes of a segment; None: its bytes are not stored as they are.

    Raises:
        FileNotFoundError: It is gone, or its manifest is; the argument is the path of what is gone.
        NotReachable: Its store cannot be read.
    """
    sizes = []
    for each in stored_objects(path):
        try:
            sizes.append(storage.stat(each).size)
        except StorageError as error:
            raise NotReachable(str(error)) from error
        except (FileNotFoundError, NotADirectoryError) as error:
            _refuse_missing_storage(path)
            raise FileNotFoundError(each) from error
    return None if is_chunked_segment(path) else sizes[0]


def stored_objects(path: str) -> tuple[str, ...]:
    """Return the paths without which the bytes of a segment cannot be read: its own, and its manifest if it has one."""
    return (path, aiven_layout.beside(path, SegmentPart.MANIFEST)) if is_chunked_segment(path) else (path,)


def is_damage(error: LogError) -> bool:
    """Return whether an error of a read at a source means other bytes, and not that they cannot be read now."""
    return isinstance(error, SourceChanged) or isinstance(error.__cause__, CorruptChunkError | CorruptIndexError)


def key_evidence(path: str, error: LogError, chunk_map: bytes | None) -> tuple[bool, str]:
    """Find out whose fault it is that the key of a segment does not decrypt: the private key's, or the manifest's.

    Args:
        path: The segment.
        error: Of a read at its source.
        chunk_map: As it was registered with the segment: it has the encrypted key as it was then.

    Returns:
        Whether the manifest is damaged, and a sentence; empty if nothing is known or the error is another one.
    """
    if not isinstance(error.__cause__, SegmentKeyError) or chunk_map is None:
        return False, ""
    try:
        manifest, then = read_manifest(path), unpacked(chunk_map).manifest
        if then.encryption == manifest.encryption:
            why = "The manifest has this key as it was registered, so the private key is of another pair."
            return False, why
        cipher_of(then)
    except LogError:
        return False, ""
    return True, "dataKey in its manifest is not the one that was registered, which the private key decrypts"


def _refuse_missing_storage(path: str) -> None:
    """Check the remote storage of a file that is gone.

    Raises:
        NotReachable: The storage is not there, has no object of any segment, or cannot be listed.
    """
    root = _root_of(path)
    if root is None:
        return
    if not storage.is_remote(root) and not os.path.isdir(root):
        raise NotReachable(f"the remote storage {shown(root)} is not there.")
    try:
        if has_segments(root):
            return
    except LogError as error:
        raise NotReachable(str(error)) from error
    raise NotReachable(
        f"the remote storage {shown(root)} has no object of a segment. Mount it, or give access to the right bucket."
    )


def _root_of(path: str) -> str | None:
    """The directory or prefix of the remote storage that a file is in; None if it is not in one."""
    part = part_of(path)
    if part is None:
        return None
    root = os.path.dirname(path)
    for _ in range(_FOLDERS[part.layout]):
        root = os.path.dirname(root)
    return root


def is_gone(directory: str) -> bool:
    """Whether a partition directory no longer exists, or has no segment. What cannot be looked into is not gone."""
    if is_object(directory):
        with suppress(JobError, OSError):
            return not storage.has_files(directory)
        return False
    if is_silent(directory):
        return False
    try:
        return not any(name.endswith(".log") for name in os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def is_in_log_directory(path: str, etag: str | None) -> bool:
    """Whether the path of a segment is a file of a broker's directory on a disk, and not of the lake or a store."""
    return storage.is_absolute(path) and not storage.is_remote(path) and etag is None and part_of(path) is None


def lost_bytes(directory: str, ends: Mapping[str, int]) -> tuple[set[str], set[str]]:
    """Return the files that a local directory no longer has, and those that are too short.

    What cannot be looked at is neither.

    Args:
        directory: The directory.
        ends: How many bytes each file must have, by name.
    """
    gone, short = set[str](), set[str]()
    if is_silent(directory):
        return gone, short
    for name, end in ends.items():
        try:
            if os.stat(os.path.join(directory, name)).st_size < end:
                short.add(name)
        except (FileNotFoundError, NotADirectoryError):
            gone.add(name)
        except OSError:
            continue
    return gone, short


def has_segments_below(directory: str, offset: int) -> bool:
    """Return whether a local directory has a segment that begins below an offset; True also if it does not answer."""
    if is_silent(directory):
        return True
    try:
        bases = [segment_base_offset(name) for name in os.listdir(directory)]
    except OSError:
        return False
    return any(base is not None and base < offset for base in bases)


def way_back(directory: str, names: Sequence[str] = ()) -> str:
    """How registered bytes come back into a directory: a command, in which COPY is where they are now.

    Args:
        directory: The directory.
        names: If it is there, the files that it lost or has in part; empty: nothing may be written over it.
    """
    parent = os.path.dirname(directory)
    command = f"mv COPY {shell_word(directory)}"
    if os.path.lexists(directory):
        if not names:
            return (
                "The log may have gone another way there, so no command puts bytes back over it. If it did, take it "
                "into a new lake."
            )
        command = f"cp -p {' '.join(f'COPY/{shell_word(name)}' for name in names)} {shell_word(directory)}/"
    elif not os.path.lexists(parent):
        command = f"mkdir -p {shell_word(parent)} && {command}"
    return (
        f"`{command}` puts them back, where COPY is the directory that has them now. Or take the log again into a new "
        "lake."
    )


def gone_files(paths: Sequence[str]) -> list[str]:
    """Return the files that no longer exist, in their order. What cannot be looked into is not gone."""
    gone = {path for path in paths if not is_object(path) and not os.path.lexists(path)}
    # A listing costs less than a request for each object.
    for directory in {storage.directory_of(path) for path in paths if is_object(path)}:
        with suppress(JobError, OSError):
            there = {file.path for file in storage.files_below(directory)}
            gone |= {path for path in paths if storage.directory_of(path) == directory and path not in there}
    return [path for path in paths if path in gone]
