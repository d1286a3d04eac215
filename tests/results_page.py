"""docs/results.md: what was measured and compared, on which commit, and how much of the code has changed since.

    python -m tests.results_page               writes the page
    python -m tests.results_page --most 5000   also ends with 1 if a result is older than so many changed lines

The second is for a release: a figure whose code has moved on is measured again.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.pages import RESULTS, PageName, headline_table
from tests.conftest import REPOSITORY

PAGE = Path("docs/results.md")
_COMMIT = re.compile(r"^(?:- commit: |\| commit \| )`?([0-9a-f]{7,40})", re.M)
_WHOLE = ("logcore", "spark_jobs", "pipelines")


@dataclass(frozen=True, slots=True)
class Result:
    """A page that a measurement or a comparison writes.

    Attributes:
        file: Its name in docs/results.
        says: What was done.
        code: The folders whose lines it is about.
    """

    file: str
    says: str
    code: Sequence[str]


EVERY = (
    Result("random-logs.md", "random logs: cleaning, recovery, retention, writing, by Kafka's classes", _WHOLE[:1]),
    Result("damaged-batches.md", "damaged batches with a right checksum, by Kafka's reader", _WHOLE[:1]),
    Result("stored-batches.md", "batches that break one rule: what brokers store, what readers read", _WHOLE[:1]),
    Result("mutants.md", "mutants of the modules that decide about data, by our unit tests", _WHOLE[:1]),
    Result(PageName.READING.file, "speed of reading", _WHOLE[:1]),
    Result(PageName.MAINTENANCE.file, "speed of cleaning and recovery", _WHOLE[:1]),
    Result(PageName.RUN.file, "speed of `loglake run`", _WHOLE),
    Result(PageName.TABLES.file, "speed of decoded, latest, cluster and remote tables", _WHOLE),
)


@dataclass(frozen=True, slots=True)
class Age:
    """How old a result is. Both are None where they are not known.

    Attributes:
        commit: The commit that its page names.
        changed: Lines of its code that were added or removed since, if the repository has the commit.
    """

    commit: str | None
    changed: int | None

    def __str__(self) -> str:
        if self.commit is None:
            return "not stated | unknown"
        is_known = self.changed is not None
        return f"`{self.commit}` | {f'{self.changed:,}' if is_known else 'the commit is not in the repository'}"


def age(result: Result) -> Age:
    """The age of a result at the commit that is checked out."""
    found = _COMMIT.search((REPOSITORY / RESULTS / result.file).read_text(encoding="utf-8"))
    if found is None:
        return Age(None, None)
    commit = found[1][:8]
    listed = subprocess.run(
        ["git", "diff", "--numstat", found[1], "HEAD", "--", *result.code],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        return Age(commit, None)
    numbers = re.findall(r"^(\d+)\t(\d+)\t.*\.py\}?$", listed.stdout, re.M)
    return Age(commit, sum(int(added) + int(removed) for added, removed in numbers))


def page_text(ages: Mapping[str, object], speeds: Mapping[PageName, str]) -> str:
    """The page, from the age of each result and the texts of the pages of speed."""
    lines = [
        "# Results",
        "",
        "Written by `python -m tests.results_page`.",
        "",
        "Each result names the commit that it was found on. The last column has the lines of the product that the",
        "result is about and that were added or removed since. A result with many of them describes an older state.",
        "[conformance.md](conformance.md) says how to repeat the comparisons with your own implementation.",
        "",
        "| result | commit | lines changed since |",
        "|---|---|---|",
        *(f"| [{result.says}]({RESULTS.name}/{result.file}) | {ages[result.file]} |" for result in EVERY),
        "",
        "## Headline figures",
        "",
        "Each figure is a row of a page of speed. The command measures it alone.",
        "",
        *headline_table(speeds),
    ]
    return "\n".join(lines) + "\n"


def speed_pages() -> dict[PageName, str]:
    """The texts of the pages of speed."""
    return {name: (REPOSITORY / RESULTS / name.file).read_text(encoding="utf-8") for name in PageName}


def renew() -> dict[str, Age]:
    """Write the page. Returns the age of each result."""
    ages = {result.file: age(result) for result in EVERY}
    (REPOSITORY / PAGE).write_text(page_text(ages, speed_pages()), encoding="utf-8")
    return ages


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.results_page")
    parser.add_argument("--most", type=int, metavar="N", help="end with 1 if more lines changed under a result")
    arguments = parser.parse_args()
    old = 0
    for file, found in renew().items():
        is_old = found.changed is None or (arguments.most is not None and found.changed > arguments.most)
        old += is_old
        sys.stdout.write(f"{'old' if is_old else 'ok':4} {file}: {str(found).replace(' | ', ', ')}\n")
    sys.stdout.write(f"written to {PAGE}\n")
    return 1 if old and arguments.most is not None else 0


if __name__ == "__main__":
    sys.exit(main())
