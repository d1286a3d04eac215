"""What the campaigns of `make test-long` have tried in all: a line for each run, and totals by generation of rules.

A generation is the catalogue of rules: another rule, or another severity, begins a new one, and its totals begin at 0.
A campaign that found something wrong is not recorded. Of runs with one seed the longest counts, for they try the same.

``python -m tests.long_runs`` writes the totals onto the page again.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from logcore.logs.rules import RULES
from tests.conftest import REPOSITORY

VARIABLE = "LOGLAKE_TEST_RECORD"
"""Names the file that tests record their runs in; without it they record nothing."""
RUNS = REPOSITORY / "tests" / "long_runs.jsonl"
PAGE = REPOSITORY / "docs" / "results" / "damaged-batches.md"
HEADING = "## Totals of all runs"


class Kind(StrEnum):
    """What is counted."""

    MUTANTS = "mutants"
    HISTORIES = "histories"
    DOUBLE_CRASHES = "double crashes"


GOALS = {Kind.MUTANTS: 10**7, Kind.HISTORIES: 10**6, Kind.DOUBLE_CRASHES: 10**3}


@dataclass(frozen=True, slots=True)
class LongRun:
    """One campaign without a finding.

    Attributes:
        part: Which campaign of its kind; others may have the same seed.
    """

    kind: Kind
    part: str
    count: int
    seed: int
    generation: str
    date: str
    commit: str


def generation() -> str:
    """Eight digits for the rules as they are now."""
    rules = sorted(f"{name} {rule.severity}" for name, rule in RULES.items())
    return hashlib.sha256("\n".join(rules).encode()).hexdigest()[:8]


def commit() -> str:
    """The commit that is tried, and whether anything differs from it."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True, check=False
    ).stdout
    # What campaigns themselves write is no difference.
    others = [line for line in changed.splitlines() if "docs/results" not in line and "long_runs.jsonl" not in line]
    return f"{head or 'unknown'}{' with changes' if others else ''}"


def record(kind: Kind, part: str, count: int, seed: int, file: Path | None = None) -> None:
    """Add a campaign that is over and found nothing wrong."""
    path = file or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if path is None:
        return
    run = LongRun(kind, part, count, seed, generation(), datetime.now(UTC).date().isoformat(), commit()[:12])
    with path.open("a") as stream:
        stream.write(json.dumps(asdict(run)) + "\n")


def recorded(file: Path = RUNS) -> list[LongRun]:
    """All runs, in the order they ended."""
    lines = file.read_text().splitlines() if file.is_file() else []
    return [LongRun(**fields | {"kind": Kind(fields["kind"])}) for fields in map(json.loads, lines)]


def section(runs: Iterable[LongRun]) -> str:
    """The part of the page with the totals, the latest generation first."""
    longest: dict[str, dict[tuple[Kind, str, int], LongRun]] = defaultdict(dict)
    for run in runs:
        of_generation, key = longest[run.generation], (run.kind, run.part, run.seed)
        if key not in of_generation or of_generation[key].count < run.count:
            of_generation[key] = run
    lines = [HEADING, "", "A generation of rules begins when a rule is added, removed or gets another severity.", ""]
    lines += ["| generation | tried | in all | goal | runs | last run |", "|---|---|---:|---:|---:|---|"]
    for name in reversed(longest):
        for kind in Kind:
            of_kind = [run for run in longest[name].values() if run.kind is kind]
            if of_kind:
                last = max(of_kind, key=lambda run: run.date)
                lines.append(
                    f"| {name} | {kind} | {sum(run.count for run in of_kind):,} | {GOALS[kind]:,} | {len(of_kind)} "
                    f"| {last.date}, seed {last.seed}, `{last.commit}` |"
                )
    return "\n".join(lines) + "\n"


def write_section(page: Path = PAGE, file: Path = RUNS) -> None:
    """Put the totals at the end of the page, in place of what was there."""
    kept = page.read_text().partition(HEADING)[0].rstrip("\n") if page.is_file() else ""
    page.write_text(f"{kept}\n\n{section(recorded(file))}")


if __name__ == "__main__":
    write_section()
    sys.stdout.write(section(recorded()))
