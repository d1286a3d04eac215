"""Live through nights of a simulated year, and print each.

    python -m tests.year --nights 365 --seed 1

Exits 0 where the lake agreed with the model after every night, else 1 with what differs.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.year.nights import Disagreed, Night, Year


def main(arguments: list[str] | None = None) -> int:
    """Run and report on stdout."""
    parser = argparse.ArgumentParser(prog="python -m tests.year", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nights", type=int, default=365, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of all that happens (default: %(default)s)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="loglake-year-") as folder:
        os.environ["LOGLAKE_HOME"] = str(Path(folder, "home"))
        os.environ["DAGSTER_HOME"] = str(Path(folder, "home", "dagster"))
        try:
            for night in Year(Path(folder), options.seed).nights(options.nights):
                sys.stdout.write(line(night) + "\n")
                sys.stdout.flush()
        except Disagreed as error:
            sys.stdout.write(f"seed {options.seed}: {error}\n")
            return 1
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


if __name__ == "__main__":
    sys.exit(main())
