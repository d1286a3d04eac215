"""The README's commands, typed in the order in which they stand there."""

from __future__ import annotations

import re

import pytest

from tests.conftest import REPOSITORY
from tests.journey.conftest import README, readme_commands

pytestmark = pytest.mark.dagster

NOT_TYPED_HERE = {"make test", "make ui"}


def test_the_two_commands_come_first():
    assert readme_commands()[:2] == ["make demo", "make test"]


def test_every_command_of_the_readme_ends_well(demo):
    typed = [command for command in readme_commands()[1:] if command not in NOT_TYPED_HERE]
    assert len(typed) >= 4
    for command in typed:
        done = demo.type(command)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        assert done.stdout.strip(), command
        assert "Traceback" not in done.stderr, command


def test_every_path_the_readme_names_is_there():
    linked = re.findall(r"\]\(([^)#:]+)\)", README.read_text())
    assert linked
    for path in linked:
        assert (REPOSITORY / path).exists(), path
