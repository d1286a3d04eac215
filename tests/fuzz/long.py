"""The long campaign: a million mutants three ways, and a file that says what came out.

    python -m tests.fuzz.long --mutants 1000000 --seed 20260821 -o docs/results/damaged-batches.md

Exits 1 if the third reader disagrees in a way that is not documented, or an engine with the reference; the file is
written either way. Every disagreement is a line that `mutant(seed, number)` makes again.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.fuzz import campaign
from tests.fuzz.canonical import CANONICAL
from tests.fuzz.differences import DIFFERENCES
from tests.fuzz.third_readers import third_reader
from tests.long_runs import Kind, commit, record, write_section

_STEP = 10_000


def main(arguments: list[str] | None = None) -> int:
    """Run, report on stderr every 10^4 mutants, write the file."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.long", description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=20260821)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    total = campaign.Results(options.seed)
    with third_reader() as (name, ask):
        for first in range(0, options.mutants, _STEP):
            count = min(_STEP, options.mutants - first)
            total.add(campaign.run(options.seed, count, ask, first=first))
            elapsed = time.monotonic() - started
            sys.stderr.write(f"\r{total.mutants} mutants, {elapsed:.0f} s, {_wrong(total)} wrong ")
    sys.stderr.write("\n")
    options.output.write_text(report(total, name, time.monotonic() - started, commit()))
    if not _wrong(total):
        record(Kind.MUTANTS, "batches", total.mutants, options.seed)
    write_section(options.output)
    return 1 if _wrong(total) else 0


def report(results: campaign.Results, third: str, seconds: float, commit: str) -> str:
    """The results file."""
    reasons = {difference.name: difference.why for difference in DIFFERENCES}
    lines = [
        "# Mutants with a right checksum",
        "",
        f"Written by `python -m tests.fuzz.long --mutants {results.mutants} --seed {results.seed}`.",
        "",
        "Each mutant is a valid batch with changed bytes and a recomputed checksum. Our engines and Kafka's Java",
        "reader must treat it alike. The valid batches are called canonical; Kafka's reader is the third reader.",
        "",
        "| | |",
        "|---|---|",
        f"| mutants | {results.mutants:,} of {len(CANONICAL)} canonical batches |",
        f"| seed | {results.seed} |",
        f"| commit | `{commit}` |",
        f"| third reader | {third} |",
        f"| elapsed | {seconds:,.0f} s, one process |",
        f"| slowest mutant in the reference | {results.slowest_ms:.0f} ms |",
        f"| differences that nothing explains | {results.third['unexplained']} |",
        f"| engines that differ from the reference | {len(results.disagreements)} |",
        "",
        "What the reference said:",
        "",
        "| verdict | mutants |",
        "|---|---:|",
        *(f"| {verdict} | {number:,} |" for verdict, number in results.verdicts.most_common()),
        "",
        "Engines that gave the same rows and the same stretches of damage:",
        "",
        "| engine | mutants |",
        "|---|---:|",
        *(f"| {engine} | {number:,} |" for engine, number in sorted(results.engines.items())),
        "",
        "The third reader beside the reference:",
        "",
        "| | mutants | why |",
        "|---|---:|---|",
        *(f"| {name} | {number:,} | {reasons.get(name, '')} |" for name, number in results.third.most_common()),
        "",
    ]
    for wrong in (*results.unexplained, *results.disagreements):
        lines += ["```", wrong, "```", ""]
    return "\n".join(lines)


def _wrong(results: campaign.Results) -> int:
    return results.third["unexplained"] + len(results.disagreements)


if __name__ == "__main__":
    sys.exit(main())
