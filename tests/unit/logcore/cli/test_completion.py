"""`loglake completion`: real shells read what it prints."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from logcore.cli import main
from logcore.cli.commands.completion import SHELLS

# What bash does when a user types a line and presses Tab: COMP_WORDS has the words, the last one unfinished.
_ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
command=$(complete -p loglake); [[ $command =~ -F\\ ([^ ]+) ]]
"${BASH_REMATCH[1]}" loglake "${@: -1}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("completion")
    found = {}
    for shell in SHELLS:
        done = subprocess.run(
            [sys.executable, "-m", "logcore.cli.main", "completion", shell], capture_output=True, text=True, check=True
        )
        found[shell] = folder / shell
        found[shell].write_text(done.stdout)
    return found


def _completed(scripts: dict[str, Path], *words: str) -> list[str]:
    command = ["bash", "-c", _ASK, "bash", str(scripts["bash"]), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_bash_completes_the_name_of_a_command(scripts: dict[str, Path]) -> None:
    assert _completed(scripts, "loglake", "ver") == ["verify"]


def test_bash_offers_every_command(scripts: dict[str, Path]) -> None:
    assert {*main.COMMANDS, *main.JOINED} <= set(_completed(scripts, "loglake", ""))


def test_bash_completes_an_option_of_a_command(scripts: dict[str, Path]) -> None:
    assert _completed(scripts, "loglake", "verify", "--top") == ["--topic"]


def test_bash_completes_the_values_of_an_option(scripts: dict[str, Path]) -> None:
    assert sorted(_completed(scripts, "loglake", "verify", "--format", "")) == ["jsonl", "text"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_shell_accepts_the_script(scripts: dict[str, Path], shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here")
    subprocess.run([shell, "-n", str(scripts[shell])], check=True)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_script_has_every_command(scripts: dict[str, Path], shell: str) -> None:
    text = scripts[shell].read_text()
    assert [name for name in (*main.COMMANDS, *main.JOINED) if name not in text] == []


def test_a_shell_without_completion_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["completion", "tcsh"]) == 64
    assert "bash" in capsys.readouterr().err
