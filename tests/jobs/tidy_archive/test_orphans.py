"""Files of the archive that no row names are deleted, unless they may be of a run at work."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake.delta import commits
from spark_jobs.lake.segments import archive
from spark_jobs.lake.table_specs import VALIDATIONS
from tests.jobs.tidy_archive.tidied_lake import DAY, keep_tidy, plant
from tests.spark.archived import files, live


def test_young_orphans_may_be_copies_under_way_and_stay(lake):
    orphan = plant(lake, f"archive/lost.0/0/{0:020d}.{'d' * 32}.log")
    os.utime(orphan, (0, 0))  # the time of change is the source's, and says nothing
    keep_tidy(lake, force=False, orphan_after_ms=7 * DAY)
    assert orphan.exists()
    with pytest.raises(UsageError, match="seven days"):
        keep_tidy(lake, force=False, orphan_after_ms=DAY)
    keep_tidy(lake)
    assert not (lake.path / "archive/lost.0").exists()
    [action] = [row for row in lake.rows("log_actions") if row["action"] == "delete-orphan"]
    assert (action["log"], action["segment_id"], action["bytes_before"]) == ("lost.0/0", "d" * 32, 100)


def test_orphans_of_one_log_are_recorded_one_by_one(lake):
    names = [f"{base:020d}.{identity}" for base, identity in ((0, "a" * 32), (10, "b" * 32))]
    orphans = [plant(lake, f"archive/lost.0/0/{name}{end}") for name in names for end in (".log", ".index")]
    keep_tidy(lake)
    assert not any(orphan.exists() for orphan in orphans)
    late = plant(lake, f"archive/lost.0/0/{10:020d}.{'c' * 32}.log")
    keep_tidy(lake)
    assert not late.exists()
    actions = [row for row in lake.rows("log_actions") if row["action"] == "delete-orphan"]
    assert sorted((row["log"], row["segment_id"], row["bytes_before"]) for row in actions) == [
        ("lost.0/0", "a" * 32, 200),
        ("lost.0/0", "b" * 32, 200),
        ("lost.0/0", "c" * 32, 100),
    ]


def test_files_of_before_a_new_table_segments_stay(lake):
    orphan = plant(lake, f"archive/lost.0/0/{0:020d}.{'d' * 32}.log")
    rows = DeltaTable(lake.path / "tables/segments").to_pyarrow_table()
    shutil.rmtree(lake.path / "tables/segments")
    commits.append(str(lake.path), "segments", rows, "again")
    late = plant(lake, f"archive/lost.0/0/{10:020d}.{'c' * 32}.log")
    keep_tidy(lake)
    assert (orphan.exists(), late.exists()) == (True, False)


@pytest.mark.parametrize(("base", "stays"), [(0, False), (19, False), (1000, True)])
def test_an_orphan_that_was_validated_and_whose_offsets_no_row_has_stays(lake, base, stays):
    [first, *_] = live(lake, "orders")
    identity = "d" * 32
    orphan = plant(lake, str(Path(first["path"]).parent / f"{base:020d}.{identity}.log"))
    row = {**dict.fromkeys(VALIDATIONS.names), "log": first["log"], "segment_id": identity}
    commits.append(str(lake.path), "validations", pa.Table.from_pylist([row], schema=VALIDATIONS), "test")
    keep_tidy(lake)
    assert orphan.exists() == stays


def test_a_joined_file_that_waits_for_its_commit_is_no_orphan(lake, monkeypatch):
    before = files(lake.path / "archive")

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(archive, "swap_segments", fails)
        with pytest.raises(JobError, match="Input/output error"):
            keep_tidy(lake)
    joined = files(lake.path / "archive").keys() - before.keys()
    assert any(name.endswith(".log") for name in joined)
    plan = keep_tidy(lake, apply=False).plan
    assert plan.mergeable.logs, "the slices are still to be joined"
    assert not [file.path for file in plan.orphans.files if file.path.endswith(".log")]


def test_a_half_written_file_beside_a_live_segment_goes_and_the_segment_stays(lake):
    [first, *_] = live(lake, "orders")
    half = plant(lake, str(Path(first["path"]).parent / ".0123.writing"))
    before = files(lake.path / "archive")
    keep_tidy(lake)
    assert not half.exists()
    after = files(lake.path / "archive")
    assert {name: after[name] for name in before if not name.endswith(".writing")}.items() <= before.items()
