"""Commands of `loglake` in a process of their own, whose output is a pseudo terminal."""

from __future__ import annotations

import errno
import os
import pty
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import REPOSITORY

LOGLAKE = "import sys; from logcore.cli.main import main; sys.exit(main(sys.argv[1:]))"


@dataclass(frozen=True, slots=True)
class Shown:
    """How a command ended, and what its terminal got. Line ends are those of files."""

    code: int
    text: str


def on_terminal(*arguments: str | Path, before: str = "", shows_errors: bool = True, **environment: str) -> Shown:
    """Run a command whose stdout is a terminal, and also its stderr.

    Args:
        arguments: The command line after `loglake`.
        before: Python statements that run before the command.
        shows_errors: Otherwise stderr is dropped.
        environment: Variables. Without `TERM` it is a terminal that shows colours.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    variables = {**inherited, "TERM": "xterm", **environment}
    master, slave = pty.openpty()
    command = [sys.executable, "-c", f"{before}\n{LOGLAKE}", *map(str, arguments)]
    errors = slave if shows_errors else subprocess.DEVNULL
    with subprocess.Popen(
        command, cwd=REPOSITORY, env=variables, stdin=subprocess.DEVNULL, stdout=slave, stderr=errors
    ) as process:
        os.close(slave)
        pieces = []
        while piece := _read(master):
            pieces.append(piece)
    os.close(master)
    return Shown(process.returncode, b"".join(pieces).decode().replace("\r\n", "\n"))


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError as error:
        if error.errno == errno.EIO:  # how Linux reports that the other end is closed
            return b""
        raise
