"""The long campaign over histories: every one up to a length, then random ones, until nothing is left or one is wrong.

    python -m tests.model.long --histories 100000 --length 5 --processes 2

Exits 1 at the first history after which an invariant does not hold, and prints it: `histories.run` does it again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from logcore.columns.cleaning.cleaning import CompiledCleaner
from logcore.logs.compaction.cleaner import PlainCleaner
from tests.long_runs import Kind, record
from tests.model import ours
from tests.model.checker import Settings
from tests.model.histories import SHORT_OF_RETENTION, Violated, random_history, run, shortest
from tests.model.naive_cleaner import NaiveCleaner
from tests.model.test_compaction import settings_of
from tests.model.test_recovery import check

_STEP = 1000


def main(arguments: list[str] | None = None) -> int:
    """Run and report on stdout."""
    parser = argparse.ArgumentParser(prog="python -m tests.model.long", description=__doc__.splitlines()[0])
    parser.add_argument("--histories", type=int, default=100_000, help="how many random ones (default: %(default)s)")
    parser.add_argument("--length", type=int, default=5, help="letters of the short ones (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first random one (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=1, help="that share these (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        for groups in (True, False):
            started, count = time.monotonic(), 0
            for history, log in shortest(Settings(groups=groups), ours.cleaner(PlainCleaner), options.length):
                count += 1
                if groups:
                    check(history, log, 0)
            _say(f"every history up to {options.length} letters, cleaned{' and recovered' * groups}", count, started)
        for size in (-1, 0, 150):
            started, settings = time.monotonic(), Settings(retention_ms=4, retention_bytes=size)
            found = shortest(
                settings, NaiveCleaner(), options.length + 1, retain=ours.retain, alphabet=SHORT_OF_RETENTION
            )
            _say(f"every history up to {options.length + 1} letters, retained", sum(1 for _ in found), started)
        started = time.monotonic()
        for number, _ in enumerate(_each(range(options.seed, options.seed + options.histories), options.processes), 1):
            if number % _STEP == 0:
                sys.stderr.write(f"\r{number} random histories, {time.monotonic() - started:.0f} s ")
        sys.stderr.write("\n")
        _say("random histories, cleaned by every engine and retained", options.histories, started)
        record(Kind.HISTORIES, "random", options.histories, options.seed)
    except (Violated, AssertionError) as error:
        sys.stdout.write(f"{error}\n")
        return 1
    return 0


def _each(seeds: range, processes: int) -> Iterator[None]:
    """Whatever is wrong comes in the order of seeds, however many processes there are."""
    if processes == 1:
        yield from map(_random, seeds)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_random, seeds, chunksize=100)


def _random(seed: int) -> None:
    run(random_history(seed), settings_of(seed), ours.cleaner(PlainCleaner, CompiledCleaner), ours.retain)


def _say(what: str, count: int, started: float) -> None:
    sys.stdout.write(f"{count:>9,} {what}: {time.monotonic() - started:.0f} s\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
