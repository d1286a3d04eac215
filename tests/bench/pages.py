"""The pages of speed in docs/results: which cases each has, and the headline figures that are taken from them.

python -m tests.bench --page run     measures the cases of one page and writes it
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

RESULTS = Path("docs/results")
_SIZE = re.compile(r"^    .*--mib (\d+)", re.M)
"""In the command that wrote a page."""


class PageName(StrEnum):
    """A page of figures, by the name that the command line takes."""

    READING = "reading"
    RUN = "run"
    TABLES = "tables"
    MAINTENANCE = "maintenance"

    @property
    def file(self) -> str:
        """Its file in :data:`RESULTS`."""
        return f"{self}.md"

    def has(self, case: str) -> bool:
        """Whether a case is on the page."""
        return any(fnmatchcase(case, pattern) for pattern in _PATTERNS[self])


_PATTERNS: Mapping[PageName, Sequence[str]] = {
    PageName.READING: (
        "small-*",
        "medium-*",
        "headers-*",
        "10k-*",
        "100k-*",
        "dump",
        "dump-*",
        "verify",
        "doubtful-batches",
        "worker-start",
        "first-reading",
        "memory",
    ),
    PageName.RUN: (
        *(
            "journey-*",
            "source-*",
            "publish-*",
            "maintain-*",
            "increment-*",
            "partitions-*",
            "watch-*",
            "transactions-*",
        ),
        *("objects-*", "operate-*"),
    ),
    PageName.TABLES: ("decode-*", "latest-*", "commits-*", "metadata-*", "remote-*"),
    PageName.MAINTENANCE: ("compact-*", "offset-map-*", "recover-*"),
}


@dataclass(frozen=True, slots=True)
class Headline:
    """A figure for README and for a reader of one table only.

    Attributes:
        says: What the figure is, in words.
        page: Where it is measured.
        name: The case, for the command.
        case: The first cell of its row, or how that begins.
        against: The second cell of its row.
    """

    says: str
    page: PageName
    name: str
    case: str
    against: str

    def command(self, page: str) -> str:
        """What measures this figure alone, with the sizes of its page."""
        size = _SIZE.search(page)
        return f"python -m tests.bench --only {self.name}" + (f" --mib {size[1]}" if size else "")


_DUMP = "DumpLogSegments --print-data-log > FILE"
_DEEP = "DumpLogSegments --deep-iteration > /dev/null"
HEADLINES = (
    Headline(
        "`loglake run`, 1 GiB, against a Spark job with default settings",
        PageName.RUN,
        "journey-small-none",
        "journey-small-none",
        "Spark job, defaults",
    ),
    Headline(
        "the same against a tuned Spark job",
        PageName.RUN,
        "journey-small-none",
        "journey-small-none",
        "Spark job, tuned",
    ),
    Headline("the same against the sum of its parts", PageName.RUN, "journey-parts", "journey-parts", "the parts"),
    Headline(
        "peak memory of all processes of that run",
        PageName.RUN,
        "journey-small-none",
        "journey-small-none: peak of RssAnon of all processes of `loglake run`",
        "700 MiB",
    ),
    Headline("`loglake run` after a growth by 10 MiB", PageName.RUN, "increment-10mb", "increment-10mb:", ""),
    Headline("`loglake run` without new data", PageName.RUN, "increment-none", "increment-none:", ""),
    Headline(
        "`loglake run --maintain --apply` against Kafka's cleaner",
        PageName.RUN,
        "maintain-none",
        "maintain-none",
        "Cleaner.doClean",
    ),
    Headline(
        "`loglake run` by processor time, transactions of one record",
        PageName.RUN,
        "transactions-small",
        "transactions-small:",
        "",
    ),
    Headline(
        "decoding of small uncompressed records against Kafka's classes",
        PageName.READING,
        "small-none-16k",
        "small-none-16k",
        "Java",
    ),
    Headline(
        "`loglake dump -o FILE` against DumpLogSegments",
        PageName.READING,
        "dump-text",
        "`loglake dump -o FILE (small-none-16k)`",
        _DUMP,
    ),
    Headline(
        "`loglake dump --format jsonl -o FILE` against DumpLogSegments",
        PageName.READING,
        "dump",
        "`loglake dump --format jsonl -o FILE`",
        _DUMP,
    ),
    Headline("`loglake verify` against DumpLogSegments", PageName.READING, "verify", "`loglake verify`", _DEEP),
    Headline(
        "cleaning on one core each against Kafka's cleaner",
        PageName.MAINTENANCE,
        "compact-none",
        "compact-none",
        "Cleaner.doClean",
    ),
    Headline(
        "the map of newest offsets, growing as cleaning fills it, against Kafka's",
        PageName.MAINTENANCE,
        "offset-map-1m",
        "offset-map-1m, growing",
        "SkimpyOffsetMap",
    ),
    Headline(
        "recovery of segments in memory against Kafka's",
        PageName.MAINTENANCE,
        "recover-none-memory",
        "recover-none-memory",
        "LogSegment.recover",
    ),
)


def headline_table(pages: Mapping[PageName, str]) -> list[str]:
    """The table of headline figures. Each row has the command that measures its figure.

    Args:
        pages: All pages; a figure that is on none of them has no value.
    """
    rows = ["| figure | value | must | aim | reached | command |", "|---|---|---|---|---|---|"]
    return rows + [_row(headline, pages[headline.page]) for headline in HEADLINES]


def _row(headline: Headline, page: str) -> str:
    link = f"[{headline.says}]({RESULTS.name}/{headline.page.file})"
    value = next(_values(page, headline), None)
    cells = ["not measured", "", "", ""] if value is None else value
    return "| " + " | ".join([link, *cells, f"`{headline.command(page)}`"]) + " |"


def _values(page: str, headline: Headline) -> Iterator[list[str]]:
    """Value, must, aim and reached of the headline's row."""
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) < 6 or cells[1] != headline.against or not cells[2].startswith("**"):
            continue
        if cells[0] == headline.case or (headline.case.endswith(":") and cells[0].startswith(headline.case)):
            yield [cells[2].partition(" (")[0], *cells[3:6]]
