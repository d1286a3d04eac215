"""The commands of README and docs/, typed in the order in which a reader meets them, print what the pages show."""

from __future__ import annotations

import pytest

from tests.documents import README, run_blocks, written_pages

pytestmark = pytest.mark.dagster

DONE_BY_FIXTURES = {"make demo", "make setup"}
PAGES = [page for page in written_pages() if run_blocks(page)]


def test_the_demo_comes_first():
    assert run_blocks(README)[0].commands[0] == "make demo"


def test_the_pages_for_operators_have_commands_to_run():
    names = {page.name for page in PAGES}
    assert names >= {"quickstart.md", "publishing.md", "maintenance.md", "guarantees.md", "operations.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_ends_well(page, demo):
    for block in run_blocks(page):
        output = []
        for command in block.commands:
            if command in DONE_BY_FIXTURES:
                continue
            done = demo.type(command)
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            assert done.stdout.strip(), command
            assert "Traceback" not in done.stderr, command
            output += done.stdout.splitlines()
        assert [line for line in block.shown if line not in output] == []
