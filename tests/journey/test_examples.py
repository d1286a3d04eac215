"""The stories in examples/: each runs with one command, and its last lines are those that its page promises."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

EXAMPLES = REPOSITORY / "examples"
SAYS = {
    "dead-cluster": ("248 rows: 248 verified by digest", "findings: 0 error, 0 warning"),
    "beside-a-live-cluster": ("archived 1 segment, published 9 records", "\n 135     134\n"),
    "typed-table": ("decoded 90 records, could not decode 139 records", "k17       žluťoučký  809.81     153"),
    "damage": ("corrupt    CRC", "2 records, 178 bytes; cut out", "2452 bytes: 2452 valid"),
}


def test_each_example_is_a_story_with_a_page_that_begins_with_its_command() -> None:
    assert {path.name for path in EXAMPLES.iterdir()} == set(SAYS)
    for name in SAYS:
        first = (EXAMPLES / name / "README.md").read_text().splitlines()[0]
        assert first.strip() == f"sh examples/{name}/run.sh"


@pytest.mark.long
@pytest.mark.parametrize("name", SAYS)
def test_the_story_runs_and_says_what_its_page_says(name: str, tmp_path: Path) -> None:
    variables = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "LOGLAKE_HOME": str(tmp_path / "home"),
        "LOGLAKE_JOB_ENGINE": "local",
        "TMPDIR": str(tmp_path),
    }
    command = (EXAMPLES / name / "README.md").read_text().splitlines()[0].split()
    done = subprocess.run(command, cwd=REPOSITORY, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for words in SAYS[name]:
        assert words in done.stdout
