"""A lake has the one layout of this version; one of another layout is refused and left as it is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from logcore.cli.main import main
from spark_jobs import launch
from spark_jobs.contracts import ValidateConfig
from spark_jobs.errors import LakeRefused
from spark_jobs.lake.setup import identity

pytestmark = pytest.mark.slow

OTHER_LAYOUTS = [(2, "layout 2 is not the one"), (3, "layout 3 is not the one")]


def made(lake: Path, layout: object) -> bytes:
    """The description of a lake; returns its bytes."""
    (lake / identity.LAKE_FILE).write_text(json.dumps({"layout": layout, "cluster": None}))
    return (lake / identity.LAKE_FILE).read_bytes()


def test_a_new_lake_has_the_layout_of_this_version(tmp_path: Path) -> None:
    identity.claim(str(tmp_path), None)
    assert json.loads((tmp_path / identity.LAKE_FILE).read_text()) == {"layout": 1, "cluster": None}
    identity.claim(str(tmp_path), "AAAAAAAAAAAAAAAAAAAAAA")
    assert identity.read_identity(str(tmp_path)) == identity.LakeIdentity(1, "AAAAAAAAAAAAAAAAAAAAAA")


@pytest.mark.parametrize(("layout", "said"), OTHER_LAYOUTS)
def test_no_job_writes_into_a_lake_of_another_layout(tmp_path: Path, layout: int, said: str) -> None:
    before = made(tmp_path, layout)
    with pytest.raises(LakeRefused, match=said):
        identity.claim(str(tmp_path), None)
    with pytest.raises(LakeRefused, match=said):
        launch.run(ValidateConfig(str(tmp_path), "run", 0))
    assert os.listdir(tmp_path) == [identity.LAKE_FILE]
    assert (tmp_path / identity.LAKE_FILE).read_bytes() == before


@pytest.mark.parametrize(("layout", "said"), [*OTHER_LAYOUTS, (0, "its layout is 0"), ("two", "its layout is 'two'")])
@pytest.mark.parametrize("command", [["withdraw"], ["repair", "--frontiers"], ["verify"]])
def test_a_command_refuses_a_lake_of_another_layout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str], layout: object, said: str
) -> None:
    before = made(tmp_path, layout)
    name, *options = command
    assert main([name, str(tmp_path), *options]) == 3
    assert said in capsys.readouterr().err
    assert os.listdir(tmp_path) == [identity.LAKE_FILE]
    assert (tmp_path / identity.LAKE_FILE).read_bytes() == before
