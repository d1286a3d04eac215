"""Archived files that are gone or harmed come back from the source or from a copy, by their recorded digest."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from logcore.cli.main import main
from spark_jobs.lake.segments import archive, archive_restore
from spark_jobs.lake.segments.archive import Segment
from tests import handmade

LOG = "AAAAAAAAAAAAAAAAAAAAAA.0/0"


def archived(lake: Path, origin: Path, content: bytes, *, position: int = 0, base_offset: int = 0) -> Segment:
    """A row of ``segments`` and its file, as ingest leaves them."""
    digest = hashlib.sha256(content).hexdigest()
    path = f"archive/{LOG}/{base_offset:032d}/{base_offset:020d}.log"
    (lake / path).parent.mkdir(parents=True)
    (lake / path).write_bytes(content)
    return Segment(
        segment_id=f"{base_offset:032d}",
        log=LOG,
        topic="orders",
        log_id="AAAAAAAAAAAAAAAAAAAAAA.0",
        partition=0,
        base_offset=base_offset,
        next_offset=base_offset + 3,
        path=path,
        start=0,
        size=len(content),
        sealed=True,
        digest=digest,
        modified_ms=1_700_000_000_000,
        max_timestamp=None,
        generation=0,
        origin_file=str(origin),
        origin_position=position,
        origin_base_offset=0,
        last_batch_base_offset=None,
        last_batch_epoch=None,
        last_batch_crc=None,
        last_batch_size=None,
        last_batch_end=None,
        retired_ms=None,
        replaced_by=None,
    )


@pytest.fixture
def place(tmp_path: Path) -> tuple[Path, Path, list[Segment]]:
    """A lake with two slices of one source file, and that file."""
    first, second = (
        handmade.batch([handmade.record(value=tag) for tag in (b"a", b"b", b"c")], base_offset=at) for at in (0, 3)
    )
    origin = tmp_path / "source" / "orders-0" / f"{0:020d}.log"
    origin.parent.mkdir(parents=True)
    origin.write_bytes(first + second)
    lake = tmp_path / "lake"
    rows = [
        archived(lake, origin, first),
        archived(lake, origin, second, position=len(first), base_offset=3),
    ]
    archive.commit_segments(str(lake), rows, {LOG: None}, "run-1", 3)
    return lake, origin, rows


def test_a_sound_archive_has_nothing_to_put_back(place):
    lake, _, _ = place
    made = archive_restore.plan(str(lake))
    assert (made.looked_at, made.harmed) == (2, ())


@pytest.mark.parametrize("harm", ["gone", "cut", "zeroed", "longer"])
def test_a_harmed_file_comes_back_from_the_source_with_its_bytes_and_time(place, harm):
    lake, _, rows = place
    file = lake / rows[1].path
    sound = file.read_bytes()
    if harm == "gone":
        file.unlink()
    else:
        file.write_bytes({"cut": sound[:9], "zeroed": bytes(len(sound)), "longer": sound + b"x"}[harm])
    made = archive_restore.plan(str(lake))
    assert [each.segment.segment_id for each in made.restorable] == [rows[1].segment_id]
    assert archive_restore.apply(str(lake), made) == made.restorable
    assert file.read_bytes() == sound
    assert file.stat().st_mtime_ns == 1_700_000_000_000 * 1_000_000
    assert archive_restore.plan(str(lake)).harmed == ()


def test_without_its_source_a_file_comes_back_from_a_named_copy_alone(place, tmp_path):
    lake, origin, rows = place
    copy = tmp_path / "copy"
    shutil.copytree(origin.parent, copy / "orders-0")
    origin.unlink()
    (lake / rows[0].path).unlink()
    lost = archive_restore.plan(str(lake))
    assert [each.segment.segment_id for each in lost.lost] == [rows[0].segment_id]
    assert archive_restore.apply(str(lake), lost) == ()
    for named in (copy, copy / "orders-0"):
        (found,) = archive_restore.plan(str(lake), [str(named)]).restorable
        assert found.found_in == str(copy / "orders-0" / origin.name)


def test_bytes_that_differ_from_the_archived_ones_are_never_put_in_their_place(place):
    lake, origin, rows = place
    content = bytearray(origin.read_bytes())
    content[-1] ^= 1
    origin.write_bytes(content)
    (lake / rows[1].path).unlink()
    made = archive_restore.plan(str(lake))
    assert made.restorable == ()
    assert len(made.lost) == 1
    assert not (lake / rows[1].path).exists()


def test_the_command_puts_back_what_a_copy_holds_and_names_the_rest(place, tmp_path, capsys):
    lake, origin, rows = place
    (lake / "lake.json").write_text('{"layout": 1, "cluster": null}')
    sound = (lake / rows[0].path).read_bytes()
    for row in rows:
        (lake / row.path).write_bytes(bytes(row.size))
    assert main(["repair", str(lake), "--archive"]) == 1
    assert (lake / rows[0].path).read_bytes() != sound
    copy = tmp_path / "copy" / "orders-0"
    copy.mkdir(parents=True)
    (copy / origin.name).write_bytes(sound)  # the second slice is not in it
    origin.unlink()
    assert main(["repair", str(lake), "--archive", "--from", str(copy), "--apply"]) == 2
    assert (lake / rows[0].path).read_bytes() == sound
    printed = capsys.readouterr().out
    assert f"offsets [0, 3), {rows[0].path}" in printed
    assert "no copy of its bytes was found" in printed
