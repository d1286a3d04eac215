"""The name of an object, with any of the layouts: what it is a part of."""

from __future__ import annotations

from logcore.remote import aiven_layout, local_tiered_storage
from logcore.remote.stored_part import RemoteLayout, SegmentPart, StoredPart

REQUIRED: dict[RemoteLayout, frozenset[SegmentPart]] = {
    RemoteLayout.LOCAL_TIERED_STORAGE: local_tiered_storage.REQUIRED,
    RemoteLayout.AIVEN: aiven_layout.REQUIRED,
}
"""Parts without which the copy of a segment is not complete."""
_SUFFIXES: dict[RemoteLayout, dict[SegmentPart, str]] = {
    RemoteLayout.LOCAL_TIERED_STORAGE: local_tiered_storage.SUFFIXES,
    RemoteLayout.AIVEN: aiven_layout.SUFFIXES,
}


def part_of(path: str) -> StoredPart | None:
    """What the name of an object says; None if no layout has such names."""
    return aiven_layout.part_of(path) or local_tiered_storage.part_of(path)


def name_of_part(layout: RemoteLayout, path: str, known: SegmentPart, part: SegmentPart) -> str:
    """The name that a part of a segment has beside another one.

    Args:
        layout: How the segment is stored.
        path: The name of an object of the segment.
        known: The part that this object is.
        part: The part to name.
    """
    suffixes = _SUFFIXES[layout]
    return path.removesuffix(suffixes[known]) + suffixes[part]
