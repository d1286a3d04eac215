"""Faults planted into the code, each of which must turn a test red: ``python -m tests.planted_faults [NAME ...]``.

A test that stays green whatever the code does is worth nothing. Each fault is one small edit of one file, made in a
copy of the work tree; then the tests that guard that promise run on the copy, and at least one has to fail.
"""

from __future__ import annotations

import sys

from tests.planted_faults.every import FAULTS
from tests.planted_faults.fault import turns_red


def main(names: list[str]) -> int:
    """Plant the named faults, or all; exit code 1 if one stayed green."""
    unknown = set(names) - {fault.name for fault in FAULTS}
    if unknown:
        print(f"no planted fault is called {sorted(unknown)[0]!r}", file=sys.stderr)
        return 64
    chosen = [fault for fault in FAULTS if not names or fault.name in names]
    green = 0
    for fault in chosen:
        red, said = turns_red(fault)
        green += not red
        print(f"{'red  ' if red else 'GREEN'}  {fault.name}: {said}", flush=True)
    print(f"{len(chosen) - green} of {len(chosen)} planted faults turned a test red")
    return 1 if green else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
