"""The programs of docs/library.md run on the bundled samples and print what the page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, Sample
from tests.daemons import WAIT_SECONDS

PAGE = REPOSITORY / "docs" / "library.md"
_PROGRAM = re.compile(r"^```python\n(?P<code>.*?)^```\n```text\n(?P<shown>.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = [(match["code"], match["shown"]) for match in _PROGRAM.finditer(PAGE.read_text())]


@pytest.fixture
def folder(tmp_path: Path, sample: Callable[[str], Sample]) -> Path:
    """A folder as after `make demo`: the samples lie unpacked in it."""
    samples = tmp_path / ".loglake" / "samples"
    samples.mkdir(parents=True)
    for name in sorted(set(re.findall(r"\.loglake/samples/([^/\"]+)", PAGE.read_text()))):
        (samples / name).symlink_to(sample(name).root)
    return tmp_path


@pytest.mark.parametrize(("code", "shown"), PROGRAMS, ids=[f"program {n}" for n in range(len(PROGRAMS))])
def test_a_program_prints_what_the_page_shows(folder: Path, code: str, shown: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    assert without_spaces_at_ends(done.stdout) == shown
    assert done.stderr == ""


def without_spaces_at_ends(text: str) -> str:
    """No line of a page ends in spaces, and no output in empty lines."""
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip() + "\n"


def test_every_program_of_the_page_is_run() -> None:
    assert len(PROGRAMS) == PAGE.read_text().count("```python") == 7
    headings = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    (section,) = (part for part in headings if part.startswith("Six programs"))
    assert section.count("```python") == 6
