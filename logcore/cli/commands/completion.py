"""`loglake completion`: what a shell reads to complete commands and options.

Exit codes: 0 · 64 no such shell.
"""

from __future__ import annotations

import argparse
import sys

from logcore.exit_codes import ExitCode

SHELLS = ("bash", "zsh", "fish")


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `completion`."""
    parser.description = (
        "Print the completion of this installation's commands and options for a shell. Write it where the "
        "shell looks: ~/.local/share/bash-completion/completions/loglake, _loglake in a folder of zsh's fpath, or "
        "~/.config/fish/completions/loglake.fish."
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell that will read it")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    import shtab

    sys.stdout.write(shtab.complete(arguments.whole_parser(), arguments.shell) + "\n")
    return ExitCode.CLEAN
