"""The long campaign: ten thousand random logs, and a file that says what came out.

    python -m tests.differential.long --cases 10000 --seed 20261121 -o docs/results/random-logs.md

It runs blocks of cases, each with a JVM of its own, and writes down each block when it is done. A new start with the
same sources continues after these blocks. What came out differently is kept as an archive beside the blocks, in a
form that `tests/differential/found` takes. Exits 1 if anything did; the file is written either way.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from tests.differential import campaign, trials
from tests.differential.campaign import Tally
from tests.differential.trials import OPERATIONS
from tests.fuzz.long import commit
from tests.kafka import distribution
from tests.kafka.storage_oracle import VERSIONS, StorageOracle

_BLOCK = 50
_REPOSITORY = Path(__file__).resolve().parents[2]
_SOURCES = ("logcore", "tests/differential", "tests/kafka/java-oracle")
_REASONS = {
    "recompressed-zstd": "batches that hold the same; that Kafka brings an older version of the library",
    "refused": "trials that Kafka's classes end with an exception, and that ours refuses",
    "damage-kept": "segments whose checksums are wrong: we leave them alone, Kafka's cleaner writes them again or ends",
    "damage-seen": "wrong checksums in the active segment; for us the log ends before them",
    "lost-transaction": "a start over batches that are there twice, which Kafka ends with an IllegalArgumentException",
    "wrapper-opened": "starts (Kafka 4.1) and rounds (4.4) that end because it opens a damaged wrapper; ours go on",
    "half-entry": "offset indexes of earlier segments whose last entry is half; Kafka cuts those that it looked into",
    "index-full": "rounds that end Kafka's cleaner because a small index is full; ours go on",
    "nothing-cleanable": "no complete segment to clean; a broker does not start its cleaner then, ours reports it",
}
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def main(arguments: list[str] | None = None) -> int:
    """Run, report on stderr after every block, write the file."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential.long", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=10_000, help="of all versions together")
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        for version in VERSIONS:  # fetched and compiled once, before processes race for it
            with StorageOracle(version):
                pass
    except distribution.Unavailable as missing:
        sys.stderr.write(f"Kafka's storage classes cannot be run here: {missing}\n")
        return 3
    folder = _home() / f"{options.seed}-{_digest()}"
    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    total, done, fresh = Tally(), 0, 0
    with ProcessPoolExecutor(options.processes) as pool:
        blocks = [
            pool.submit(block, folder, options.seed, version, first, last)
            for version, first, last in _blocks(options.cases)
        ]
        for finished in as_completed(blocks):
            tally, cases, is_fresh = finished.result()
            total.add(tally)
            done += cases
            fresh += cases if is_fresh else 0
            elapsed = time.monotonic() - started
            sys.stderr.write(f"\r{done} of {options.cases} cases, {elapsed:.0f} s, {len(total.different)} different ")
            sys.stderr.flush()
    sys.stderr.write(f"\n{done - fresh} cases were done before; what was kept is in {folder}\n")
    options.output.write_text(report(total, options.cases, options.seed))
    return 1 if total.different else 0


def block(folder: Path, seed: int, version: str, first: int, last: int) -> tuple[Tally, int, bool]:
    """The tally of cases first to last (exclusive), how many they are, and whether they were run now."""
    path = folder / f"{version}-{first:05d}-{last:05d}.json"
    if path.exists():
        return Tally.of(json.loads(path.read_text())), last - first, False
    tally = Tally()
    with StorageOracle(version) as kafka:
        for compared in campaign.run(kafka, seed, range(first, last)):
            tally.take(compared)
            if compared.comparison.differences:
                trials.keep(folder / f"{compared.trial.name}.tar.xz", compared.trial, compared.kafka)
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(tally.as_dict()))
    unfinished.replace(path)
    return tally, last - first, True


def report(total: Tally, cases: int, seed: int) -> str:
    """The results file."""
    lines = [
        "# Random logs, by Kafka's own classes and by ours",
        "",
        f"Written by `python -m tests.differential.long --cases {cases} --seed {seed}`.",
        "",
        "| | |",
        "|---|---|",
        f"| cases | {cases:,}: a log each, the same for all versions |",
        f"| trials | {total.trials.total():,}: what was done with a log, compared file for file |",
        f"| equal | {total.equal.total():,} |",
        f"| different | {len(total.different):,} |",
        f"| seed | {seed} |",
        f"| commit | `{commit()}` |",
        "",
        "Equal trials of all, by what was done. `clean2` is a second round of cleaning on the result of the first:",
        "",
        f"| Kafka | {' | '.join(OPERATIONS)} |",
        f"|---|{'---:|' * len(OPERATIONS)}",
        *(_line(version, _of_all(total, version)) for version in VERSIONS),
        "",
        "Equal trials whose log has a codec:",
        "",
        f"| Kafka | {' | '.join(_CODECS)} |",
        f"|---|{'---:|' * len(_CODECS)}",
        *(_line(version, [f"{total.codecs[version, codec]:,}" for codec in _CODECS]) for version in VERSIONS),
        "",
        "Known differences, which count as equal:",
        "",
        "| Kafka | in | difference | number | what it is |",
        "|---|---|---|---:|---|",
        *(
            f"| {version} | {operation} | {name} | {count:,} | {_REASONS.get(name, '')} |"
            for (version, operation, name), count in sorted(total.named.items())
        ),
        "",
    ]
    for different in sorted(total.different):
        lines += ["```", different, "```", ""]
    return "\n".join(lines)


def _of_all(total: Tally, version: str) -> list[str]:
    return [f"{total.equal[version, each]:,} of {total.trials[version, each]:,}" for each in OPERATIONS]


def _line(head: str, cells: list[str]) -> str:
    return f"| {head} | {' | '.join(cells)} |"


def _blocks(cases: int) -> Iterator[tuple[str, int, int]]:
    """Version, first case and the one after the last. The versions take turns, so that any beginning has all."""
    share, rest = divmod(cases, len(VERSIONS))
    shares = [share + (number < rest) for number in range(len(VERSIONS))]
    for first in range(0, max(shares), _BLOCK):
        for version, end in zip(VERSIONS, shares, strict=True):
            if first < end:
                yield version, first, min(first + _BLOCK, end)


def _home() -> Path:
    return Path(os.environ.get("LOGLAKE_HOME") or _REPOSITORY / ".loglake", "differential")


def _digest() -> str:
    """Of everything that decides what comes out: blocks of other sources are not taken up."""
    digest = hashlib.sha256()
    for folder in _SOURCES:
        for path in sorted((_REPOSITORY / folder).rglob("*")):
            if path.suffix in (".py", ".java"):
                digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


if __name__ == "__main__":
    sys.exit(main())
