"""What a directory of remote storage holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from logcore.remote.stored_part import RemoteLayout, SegmentPart
from logcore.storage.remote_tier import remote_listing
from logcore.storage.remote_tier.remote_listing import list_remote
from logcore.storage.source_errors import SourceUnreadable

TOPIC, SEGMENT = "GW-1GPphSsCFtpdS005Bug", "Zs2vpUXwT1WTbYAIMD4Ahg"


def put(root: Path, name: str, size: int = 3) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(bytes(size))


def test_parts_of_both_layouts_are_found_at_any_depth(tmp_path: Path) -> None:
    put(tmp_path, f"a/b/t-0-{TOPIC}/00000000000000000005-{SEGMENT}.index", 8)
    put(tmp_path, f"prefix/t-{TOPIC}/0/00000000000000000005-{SEGMENT}.rsm-manifest")
    put(tmp_path, f"prefix/t-{TOPIC}/0/00000000000000000005-{SEGMENT}.timeindex")
    put(tmp_path, f"warehouse/t/metadata/{SEGMENT}.puffin")
    put(tmp_path, "README", 7)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    found = list_remote(str(tmp_path))
    assert [(each.part.layout, each.part.part, each.size) for each in found.objects] == [
        (RemoteLayout.LOCAL_TIERED_STORAGE, SegmentPart.OFFSET_INDEX, 8),
        (RemoteLayout.AIVEN, SegmentPart.MANIFEST, 3),
    ]
    assert (len(found.old), len(found.iceberg), found.other, found.other_bytes) == (1, 1, 1, 7)


def test_a_listing_that_is_not_complete_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceUnreadable):
        list_remote(str(tmp_path / "missing"))
    for number in range(4):
        put(tmp_path, f"{number}")
    monkeypatch.setattr(remote_listing, "MOST_OBJECTS", 3)
    with pytest.raises(SourceUnreadable, match="more than 3 files"):
        list_remote(str(tmp_path))
