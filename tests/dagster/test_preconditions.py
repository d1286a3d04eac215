"""`loglake run` refuses before it makes anything."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from logcore.cli.main import main
from spark_jobs.policies.policies_file import NO_POLICIES
from tests.broker_directory import LogDirectory

pytestmark = pytest.mark.dagster


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LogDirectory:
    """A log directory with `orders-0`; the home is elsewhere and not there yet."""
    monkeypatch.setenv("LOGLAKE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    source = LogDirectory(tmp_path / "kafka-logs")
    source.partition("orders-0").append(3)
    return source


def everything(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file, folder and link with size and time of change."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
    }


def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """Exit code and message; nothing was made anywhere."""
    before = everything(tmp_path)
    code = main(["run", *map(str, arguments)])
    assert everything(tmp_path) == before
    said = capsys.readouterr()
    assert said.out == ""
    return code, said.err


def link(folder: Path) -> Path:
    made = folder.parent / "a-link"
    made.symlink_to(folder)
    return made


LAKES_IN_A_SOURCE: list[Callable[[Path], tuple[Path, Path]]] = [
    lambda logs: (logs, logs / "lake"),
    lambda logs: (logs, logs),
    lambda logs: (logs, logs / "deep" / "below" / "lake"),
    lambda logs: (logs, logs / "orders-0" / "lake"),
    lambda logs: (logs / "orders-0", logs / "orders-0" / "lake"),
    lambda logs: (logs / "orders-0", logs / "lake"),
    lambda logs: (logs / "orders-0" / f"{0:020d}.log", logs / "orders-0" / "lake"),
    lambda logs: (logs / "orders-0" / f"{0:020d}.log", logs / "lake"),
    lambda logs: (link(logs), logs / "lake"),
    lambda logs: (logs, link(logs) / "lake"),
    lambda logs: (Path(f"{logs}/orders-0/../../{logs.name}"), logs / "lake"),
]


@pytest.mark.parametrize("places", LAKES_IN_A_SOURCE)
def test_a_lake_inside_a_source_is_refused(logs, tmp_path, capsys, places):
    source, lake = places(logs.path)
    code, said = refused(tmp_path, capsys, source, "--lake", lake)
    assert code == 64
    assert "lies inside" in said


def test_a_lake_inside_a_source_to_fill_from_is_refused(logs, tmp_path, capsys):
    copy = LogDirectory(tmp_path / "copy")
    copy.partition("orders-0").append(3)
    code, said = refused(tmp_path, capsys, logs.path, "--lake", copy.path / "lake", "--fill-from", copy.path)
    assert code == 64
    assert "lies inside the source" in said


@pytest.mark.parametrize("below", ["", "archive", "archive/id.0/0", "archive/id.0/0/segment/00000000000000000000.log"])
@pytest.mark.parametrize("how", ["source", "fill-from"])
def test_a_source_inside_a_lake_is_refused(logs, tmp_path, capsys, below, how):
    lake = tmp_path / "a-lake"
    (lake / "archive" / "id.0" / "0" / "segment").mkdir(parents=True)
    (lake / "archive" / "id.0" / "0" / "segment" / f"{0:020d}.log").write_bytes(b"")
    (lake / "lake.json").write_text(json.dumps({"layout": 1, "cluster": None}))
    inside = lake / below
    paths = [inside] if how == "source" else [logs.path, "--fill-from", inside]
    for target in (tmp_path / "another", lake):
        code, said = refused(tmp_path, capsys, *paths, "--lake", target)
        assert code == 64
        assert f"inside the lake {lake}" in said


def test_a_source_inside_what_is_to_be_the_lake_is_refused(logs, tmp_path, capsys):
    code, said = refused(tmp_path, capsys, logs.path, "--lake", tmp_path)
    assert code == 64
    assert "will be the lake" in said


def test_a_lake_inside_a_lake_is_refused(logs, tmp_path, capsys):
    (tmp_path / "outer").mkdir()
    (tmp_path / "outer" / "lake.json").write_text(json.dumps({"layout": 1, "cluster": None}))
    code, said = refused(tmp_path, capsys, logs.path, "--lake", tmp_path / "outer" / "archive" / "inner")
    assert code == 64
    assert f"inside the lake {tmp_path / 'outer'}" in said


def test_archived_segments_are_dumped_and_verified_where_they_lie(logs, tmp_path, capsys):
    place = tmp_path / "lake" / "archive" / "orders-0"
    place.mkdir(parents=True)
    (tmp_path / "lake" / "lake.json").write_text(json.dumps({"layout": 1, "cluster": None}))
    segment = place / f"{0:020d}.log"
    segment.write_bytes((logs.path / "orders-0" / f"{0:020d}.log").read_bytes())
    for command in ("dump", "verify"):
        assert main([command, str(segment)]) in (0, 1)
        assert capsys.readouterr().out.count("\n") >= 2


def test_a_lake_beside_a_partition_directory_that_no_broker_has_is_accepted(logs, tmp_path):
    from spark_jobs.launch import check_run

    (tmp_path / "copies").mkdir()
    alone = (logs.path / "orders-0").rename(tmp_path / "copies" / "orders-0")
    check_run(str(tmp_path / "copies" / "lake"), [str(alone)], [], NO_POLICIES)


def test_sources_that_are_all_missing_are_named_and_no_lake_is_made(logs, tmp_path, capsys):
    code, said = refused(tmp_path, capsys, tmp_path / "gone", tmp_path / "lost", "--lake", tmp_path / "lake")
    assert code == 3
    assert f"{tmp_path / 'gone'} does not exist" in said
    assert f"{tmp_path / 'lost'} does not exist" in said


def test_a_first_run_without_a_usable_java_makes_nothing(logs, tmp_path, capsys, monkeypatch):
    from spark_jobs.engine import java

    monkeypatch.setattr(java, "_installed_java", lambda: (None, ["JAVA_HOME: old"]))
    monkeypatch.setattr(java, "_packaged_java", lambda rejected: None)
    code, said = refused(tmp_path, capsys, logs.path, "--lake", tmp_path / "lake", "--engine", "spark")
    assert code == 3
    assert "Java 17 or later" in said


def test_a_lake_that_cannot_be_written_is_reported_before_anything_is_made(logs, tmp_path, capsys):
    (tmp_path / "file").write_text("a file")
    code, said = refused(tmp_path, capsys, logs.path, "--lake", tmp_path / "file" / "lake")
    assert code == 3
    assert f"{tmp_path / 'file'} is no directory" in said


def test_a_folder_without_permission_to_write_is_reported_before_anything_is_made():
    code = (
        "import os, sys; from spark_jobs.lake.setup.placement import check_writable as check; "
        "from spark_jobs.errors import JobError\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "try: check(sys.argv[1])\n"
        "except JobError as error: print(error)"
    )
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o555)
        done = subprocess.run([sys.executable, "-c", code, str(folder / "lake")], capture_output=True, text=True)
        assert f"no permission to write in {folder}" in done.stdout, done.stderr
    finally:
        folder.rmdir()


def test_policies_that_cannot_be_read_are_reported_before_anything_is_made(logs, tmp_path, capsys):
    code, said = refused(tmp_path, capsys, logs.path, "--lake", tmp_path / "lake", "--policies", tmp_path / "none.yaml")
    assert code == 64
    assert "none.yaml" in said


def test_a_lake_of_a_newer_layout_is_left_alone(logs, tmp_path, capsys):
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "lake.json").write_text(json.dumps({"layout": 99, "cluster": None}))
    code, said = refused(tmp_path, capsys, logs.path, "--lake", tmp_path / "lake")
    assert code == 3
    assert "layout 99 is not the one" in said


def test_a_store_without_encryption_is_named_as_what_is_missing(logs, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)
    code, said = refused(tmp_path, capsys, logs.path, "--lake", "s3://bucket/lake")
    assert code == 64
    assert "AWS_ALLOW_HTTP=true" in said
    assert "sources.json" not in said
