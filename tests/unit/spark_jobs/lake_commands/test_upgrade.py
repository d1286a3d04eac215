"""A lake of layout 1 is accepted, and brought to the newest layout in one step."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from logcore.cli.main import main
from spark_jobs import launch
from spark_jobs.contracts import ValidateConfig
from spark_jobs.lake.errors import LakeRefused
from spark_jobs.lake.setup import identity

pytestmark = pytest.mark.slow

KILLED = """
import os, signal, sys
from spark_jobs.lake_commands.upgrade import upgrade_command
from logcore.cli.main import main

real = {name: getattr(os, name) for name in ("open", "replace", "fsync", "makedirs", "unlink")}
left = [int(sys.argv[2])]

def counted(name):
    def call(*args, **kwargs):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real[name](*args, **kwargs)
    return call

for name in real:
    setattr(os, name, counted(name))
sys.exit(main(["upgrade", sys.argv[1]]))
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A lake as the version before made it."""
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "lake.json").write_text('{"layout": 1, "cluster": "AAAAAAAAAAAAAAAAAAAAAA"}')
    return tmp_path / "lake"


def content(lake: Path) -> dict[str, object]:
    return json.loads((lake / "lake.json").read_text())


def test_an_older_lake_is_brought_to_layout_3_and_once_is_enough(old: Path, capsys):
    assert main(["upgrade", str(old)]) == 0
    assert capsys.readouterr().out == f"{old}: layout 1 -> 3\n"
    assert content(old) == {"layout": 3, "cluster": "AAAAAAAAAAAAAAAAAAAAAA"}
    before = (old / "lake.json").stat().st_mtime_ns
    assert main(["upgrade", str(old)]) == 0
    assert capsys.readouterr().out == f"{old}: layout 3 already; nothing to do\n"
    assert (old / "lake.json").stat().st_mtime_ns == before


def test_taking_something_in_brings_an_older_lake_to_layout_3(old: Path):
    identity.claim(str(old), "AAAAAAAAAAAAAAAAAAAAAA")
    assert content(old)["layout"] == 3


def test_an_older_lake_is_read_as_it_is(old: Path):
    assert identity.read_identity(str(old)) == identity.LakeIdentity(1, "AAAAAAAAAAAAAAAAAAAAAA")
    assert content(old)["layout"] == 1


@pytest.mark.long
def test_an_upgrade_that_is_killed_at_any_moment_is_done_by_the_next(old: Path):
    killed = 0
    for at in range(1, 40):
        (old / "lake.json").write_text('{"layout": 1, "cluster": "AAAAAAAAAAAAAAAAAAAAAA"}')
        done = subprocess.run([sys.executable, "-c", KILLED, str(old), str(at)], capture_output=True, check=False)
        assert content(old)["layout"] in (1, 3)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
        killed += 1
        assert main(["upgrade", str(old)]) == 0
        assert content(old) == {"layout": 3, "cluster": "AAAAAAAAAAAAAAAAAAAAAA"}
    assert done.returncode == 0
    assert killed >= 4


def test_where_no_lake_is_nothing_is_made(tmp_path: Path, capsys):
    assert main(["upgrade", str(tmp_path / "none")]) == 3
    assert "no lake at" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("layout", [4, 0, "two"])
def test_a_layout_that_is_not_known_is_refused_and_left(tmp_path: Path, capsys, layout):
    (tmp_path / "lake.json").write_text(json.dumps({"layout": layout, "cluster": None}))
    assert main(["upgrade", str(tmp_path)]) == 3
    assert "lake.json" in capsys.readouterr().err
    assert content(tmp_path)["layout"] == layout
    assert os.listdir(tmp_path) == ["lake.json"]


def test_no_job_writes_into_a_lake_of_a_newer_layout(tmp_path: Path):
    (tmp_path / "lake.json").write_text(json.dumps({"layout": 4, "cluster": None}))
    with pytest.raises(LakeRefused, match="layout 4 is newer"):
        launch.run("validate", ValidateConfig(str(tmp_path), "run", 0))
    assert os.listdir(tmp_path) == ["lake.json"]


def test_apply_without_adopting_is_a_mistake_of_the_call(old: Path, capsys):
    assert main(["upgrade", str(old), "--apply"]) == 64
    assert "--adopt-sources" in capsys.readouterr().err
    assert content(old)["layout"] == 1
