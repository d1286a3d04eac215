"""``python -m tests.kafka.operated_long --cases 100``: brokers operated at random, and what `verify` says of each.

A case has three rounds: stopped in order, killed, stopped in order. After an orderly stop `verify` must be silent.
After a kill it may warn of what the broker's own recovery repairs. A case with findings is kept and its story printed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from logcore.cli.main import main as loglake
from tests.kafka.operated import Operated

_ROUNDS = (False, True, False)
"""Whether a round ends with a kill."""


def findings(log_dir: Path, severities: Sequence[str] = ("warning", "error")) -> list[dict[str, Any]]:
    """What `verify` reports of a log directory, of these severities.

    :raises AssertionError: it looked at no log, or its exit code says other than its findings.
    """
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = loglake(["verify", str(log_dir), "--format", "jsonl"])
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    found = [line for line in lines if line.get("severity") in ("warning", "error")]
    assert sum(lines[-1]["summary"]["logs"].values()) > 0, "no log was looked at"
    assert code == max((2 if line["severity"] == "error" else 1 for line in found), default=0), f"exit code {code}"
    return [line for line in found if line["severity"] in severities]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases; returns 1 if `verify` reported something that it should not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    failed = 0
    for seed in range(chosen.first_seed, chosen.first_seed + chosen.cases):
        folder = Path(tempfile.mkdtemp(prefix="loglake-operated-"))
        operated = Operated(folder / "broker", seed)
        bad: list[dict[str, Any]] = []
        for kill in _ROUNDS:
            operated.round(kill=kill)
            bad = findings(operated.log_dir, ("error",) if kill else ("warning", "error"))
            if bad:
                break
        if bad:
            failed += 1
            sys.stdout.write("\n".join([*operated.story, *map(json.dumps, bad), f"kept: {folder}", ""]))
        else:
            shutil.rmtree(folder)
        sys.stdout.write(f"seed {seed}: {len(bad)} findings\n")
        sys.stdout.flush()
    sys.stdout.write(f"{chosen.cases} brokers, {failed} with findings\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
