"""Live through nights of a simulated year, and print each.

    python -m tests.year --nights 365 --seed 1

Exits 0 where the lake agreed with the model after every night, else 1 with what differs.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.year.nights import Disagreed, Night, Year

TENTH = 10


def main(arguments: list[str] | None = None) -> int:
    """Run and report on stdout."""
    parser = argparse.ArgumentParser(prog="python -m tests.year", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nights", type=int, default=365, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of all that happens (default: %(default)s)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="loglake-year-") as folder:
        os.environ["LOGLAKE_HOME"] = str(Path(folder, "home"))
        os.environ["DAGSTER_HOME"] = str(Path(folder, "home", "dagster"))
        lived: list[Night] = []
        try:
            for night in Year(Path(folder), options.seed).nights(options.nights):
                lived.append(night)
                sys.stdout.write(line(night) + "\n")
                sys.stdout.flush()
        except Disagreed as error:
            sys.stdout.write(f"seed {options.seed}: {error}\n")
            return 1
    if len(lived) >= TENTH:
        sys.stdout.write(compared(lived))
    sys.stdout.write(f"{options.nights} nights, seed {options.seed}: the lake agreed with the model after each\n")
    return 0


def line(night: Night) -> str:
    """One night for people."""
    idle = ""
    if night.idle_seconds is not None and night.idle_bytes is not None:
        idle = f", nothing new {night.idle_seconds:.2f} s and {night.idle_bytes / 1e6:.0f} MB"
    events = f"; {', '.join(night.events)}" if night.events else ""
    return (
        f"night {night.number}: {night.rows:,} rows, {night.live_files} live files, "
        f"logs {night.log_bytes / 1e6:.2f} MB, state {night.state_bytes / 1e6:.2f} MB, "
        f"night {night.seconds:.2f} s{idle}{events}"
    )


def compared(lived: list[Night]) -> str:
    """The figures of the tenth day beside those of the last, as the table of docs/year-results.md has them."""
    idle = [night for night in lived if night.idle_seconds is not None]
    sides = (lived[TENTH - 1], idle[0]), (lived[-1], idle[-1])
    rows: list[tuple[str, Callable[[Night, Night], str]]] = [
        ("rows of records", lambda night, _: f"{night.rows:,}"),
        ("live files", lambda night, _: f"{night.live_files}"),
        ("log size", lambda night, _: f"{night.log_bytes / 1e6:.2f} MB"),
        ("state", lambda night, _: f"{night.state_bytes / 1e6:.2f} MB"),
        ("memory", lambda _, idle: f"{(idle.idle_bytes or 0) / 1e6:.0f} MB"),
        ("no-op", lambda _, idle: f"{idle.idle_seconds or 0:.2f} s"),
        ("night", lambda night, _: f"{night.seconds:.2f} s"),
    ]
    lines = [f"| {name} | {' | '.join(text(*side) for side in sides)} |\n" for name, text in rows]
    return "".join(["| | tenth day | last day |\n", "|---|---|---|\n", *lines])


if __name__ == "__main__":
    sys.exit(main())
