"""Mistakes that a machine makes in the modules that decide about data: ``python -m tests.mutants``.

mutmut changes one operator, number, name or argument at a time, in a copy of the work tree, and runs the tests that
reach the changed function. ``[tool.mutmut]`` in pyproject.toml names the modules and the tests. A mutant that stays
green is a claim that no test makes, or it does the same: those of which we know that are in `EQUIVALENT`.

``--tenths 3 --seed N`` draws three tenths of the mutants of each function; about 600 take five minutes of one core.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.long_runs import commit
from tests.planted_faults.fault import copy_work_tree

MUST = 90
"""Per cent of the mutants that a test has to notice."""
NOTICED, GREEN, REFUSED = ("killed", "timeout"), ("survived", "no tests"), ("caught by type check",)


@dataclass(frozen=True, slots=True)
class Equivalent:
    """A mutant that does what the code does.

    Attributes:
        function: Where it is, as mutmut names it, without the module.
        becomes: The changed line.
        reason: Why the two do the same.
    """

    function: str
    becomes: str
    reason: str


EQUIVALENT: Sequence[Equivalent] = (
    Equivalent(
        "x__wrap", "return (value - (1 << 63)) % (1 << 64) - (1 << 63)", "2^63 and -2^63 are the same modulo 2^64"
    ),
    Equivalent("x_retained", "stamped = None", "it is only asked for its truth"),
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One that was tried: `name` is ``module.function__mutmut_number``."""

    name: str
    status: str

    @property
    def module(self) -> str:
        """The module, dotted."""
        return self.name.rpartition(".")[0]

    @property
    def function(self) -> str:
        """The function, as mutmut names it."""
        return self.name.rpartition(".")[2].partition("__mutmut_")[0]


def _mutmut(tree: Path, *arguments: str) -> str:
    programs = Path(sys.executable).parent
    home = os.environ.get("LOGLAKE_HOME", str(REPOSITORY / ".loglake"))
    environment = os.environ | {"LOGLAKE_HOME": home, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    command = [str(programs / "mutmut"), *arguments]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"mutmut {arguments[0]} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def _tried(tree: Path, digits: Sequence[int]) -> list[Mutant]:
    _mutmut(tree, "run", "--max-children", "1", *(f"*__mutmut_*{digit}" for digit in digits))
    found = re.findall(r"^ +(\S+): (.+)$", _mutmut(tree, "results", "--all", "true"), re.M)
    return [Mutant(name, status) for name, status in found if status != "not checked"]


def _change(tree: Path, mutant: Mutant) -> tuple[str, str]:
    """The lines that the mutant replaced, and the lines in their place."""
    diff = _mutmut(tree, "show", mutant.name)
    old, new = (re.findall(rf"^{sign} +(.*)$", diff, re.M) for sign in ("-", r"\+"))
    return " ".join(old), " ".join(new)


class Result:
    """What became of the mutants that were tried."""

    def __init__(
        self,
        tried: Sequence[Mutant],
        changes: Mapping[Mutant, tuple[str, str]],
        equivalent: Sequence[Equivalent] = EQUIVALENT,
    ) -> None:
        self.tried = tried
        self.changes = changes
        """Of each that no test noticed: the lines that were there, and the lines in their place."""
        known = {(each.function, each.becomes): each for each in equivalent}
        self.equivalent = {
            mutant: known[mutant.function, new]
            for mutant, (_, new) in changes.items()
            if (mutant.function, new) in known
        }
        self.green = [mutant for mutant in changes if mutant not in self.equivalent]
        noticed = sum(mutant.status in NOTICED for mutant in tried)
        self.counted = noticed + len(self.green)
        self.share = 100 * noticed / max(self.counted, 1)


def page(result: Result, command: str) -> Iterator[str]:
    """The page of results, line by line."""
    yield from ("# Mutants of the modules that decide about data", "", f"Written by `{command}`.", "")
    yield "mutmut changes one operator, number, name or argument at a time, and runs the tests that reach it."
    yield "Mutants that mypy refuses are not tried. Equivalent ones do what the code does; they are not counted."
    yield from ("", "| | |", "|---|---|", f"| commit | `{commit()}` |", f"| date | {datetime.now(UTC).date()} |")
    yield f"| noticed by a test | **{result.share:.1f} %** of {result.counted:,} |"
    yield from ("", "| module | noticed | stayed green | equivalent | refused by mypy |", "|---|---:|---:|---:|---:|")
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for mutant in result.tried:
        rows[mutant.module]["equivalent" if mutant in result.equivalent else mutant.status] += 1
    for module, counts in sorted(rows.items()):
        figures = (sum(counts[status] for status in kind) for kind in (NOTICED, GREEN, ("equivalent",), REFUSED))
        yield f"| `{module}` | {' | '.join(f'{figure:,}' for figure in figures)} |"
    for title, mutants in (("Stayed green", result.green), ("Equivalent", list(result.equivalent))):
        yield from ("", f"## {title}", "")
        for mutant in mutants:
            known = result.equivalent.get(mutant)
            yield f"- `{mutant.name}`: `{' → '.join(result.changes[mutant])}`{f': {known.reason}' if known else ''}"


def main(arguments: list[str] | None = None) -> int:
    """Try the mutants and write the page; 1 if too few were noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--tenths", type=int, default=10, choices=range(1, 11), help="of the mutants, how many tenths")
    parser.add_argument("--seed", type=int, default=0, help="draws them")
    parser.add_argument("-o", "--output", type=Path, help="the page of results")
    options = parser.parse_args(arguments)
    digits = random.Random(options.seed).sample(range(10), options.tenths)
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        tree = Path(scratch, "tree")
        copy_work_tree(tree)
        tried = _tried(tree, digits)
        changes = {mutant: _change(tree, mutant) for mutant in tried if mutant.status in GREEN}
    result = Result(tried, changes)
    lines = page(result, f"python -m tests.mutants --tenths {options.tenths} --seed {options.seed}")
    if options.output:
        options.output.write_text("\n".join(lines) + "\n")
    print("\n".join(f"GREEN  {mutant.name}: {' -> '.join(changes[mutant])}" for mutant in result.green))
    print(f"{result.share:.1f} % of {result.counted:,} mutants were noticed")
    return 0 if result.share >= MUST else 1


if __name__ == "__main__":
    sys.exit(main())
