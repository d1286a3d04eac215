"""The hooks of git run what `make lint` runs, with what `.venv` has."""

import re
import shlex

import yaml

from tests.conftest import REPOSITORY


def test_the_hooks_run_the_programs_of_make_lint() -> None:
    config = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text())
    assert [repository["repo"] for repository in config["repos"]] == ["local"]
    entries = [shlex.split(hook["entry"])[:2] for hook in config["repos"][0]["hooks"] if "stages" not in hook]
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert lint is not None
    assert entries == [line.split()[:2] for line in lint[1].splitlines()]
