"""The share of rows of a topic that could not be decoded: of the rows published last, and of all before them.

Both are read from the statistics of the files alone. Files that have rows of several publishing runs count as rows of
the last one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from spark_jobs.lake.decoded.topic_tables import DECODED, UNDECODED, topic_table
from spark_jobs.lake.delta.files.live_files import LiveFile

LEAST_SHARE = 0.01
"""A smaller share of the newest rows is no rise."""
MOST = 0.5
"""A larger share of a first load is no mixture of formats: the policy is wrong."""
RISE = 2
"""A share that is more than so many times the earlier one is a rise."""


@dataclass(frozen=True, slots=True)
class UndecodedShare:
    """Rows of a topic, and those of them that could not be decoded."""

    newest: int
    newest_undecoded: int
    earlier: int
    earlier_undecoded: int

    @property
    def of_newest(self) -> float:
        """The share of the newest rows."""
        return self.newest_undecoded / self.newest if self.newest else 0.0

    @property
    def of_earlier(self) -> float:
        """The share of all rows before them."""
        return self.earlier_undecoded / self.earlier if self.earlier else 0.0

    def rises(self, most: float | None = None) -> bool:
        """Whether all newest rows fail, or much more often than earlier ones; without those, whether most of them.

        Args:
            most: The share that a policy accepts; None: it says nothing.
        """
        if most is not None:
            return self.of_newest > most
        accepted = max(LEAST_SHARE, RISE * self.of_earlier) if self.earlier else MOST
        return self.of_newest > accepted or self.of_newest == 1


def undecoded_share(lake: str, topic: str) -> UndecodedShare:
    """Return the shares of a topic.

    Raises:
        TableUnreadable: A table is damaged.
    """
    good, bad = (list(_counted(topic_table(lake, kind, topic).files())) for kind in (DECODED, UNDECODED))
    last = max((published for published, _ in (*good, *bad)), default=None)
    new_good, new_bad = (sum(rows for published, rows in files if published == last) for files in (good, bad))
    all_good, all_bad = (sum(rows for _, rows in files) for files in (good, bad))
    return UndecodedShare(new_good + new_bad, new_bad, all_good + all_bad - new_good - new_bad, all_bad - new_bad)


def _counted(files: Sequence[LiveFile]) -> Iterator[tuple[Any, int]]:
    """When the rows of a file were published last, and how many they are, where its statistics say both."""
    for file in files:
        published = file.greatest.get("published_at")
        if published is not None and file.rows >= 0:
            yield published, file.rows
