"""How often something is true in the newest rows of a table, compared with the rows before them.

Small numbers of rows differ by chance. So a difference counts only if it is larger than four standard errors of the
difference of two shares, plus one row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

LEAST_SHARE = 0.01
"""A smaller share, or difference of shares, means nothing."""
LEAST_PART = 0.5
"""A share departs if its distance to 0 or 1, whichever is nearer, changes by more than so large a part."""
STANDARD_ERRORS = 4


@dataclass(frozen=True, slots=True, order=True)
class TalliedPlace:
    """A row of a table."""

    partition: int
    log_id: str
    offset: int


@dataclass(frozen=True, slots=True)
class Tally:
    """Rows of which something is true, among the newest rows and among those before."""

    newest: int = 0
    newest_true: int = 0
    earlier: int = 0
    earlier_true: int = 0
    first_true: TalliedPlace | None = field(default=None, compare=False)
    """The first of the newest rows of which it is true."""
    first_false: TalliedPlace | None = field(default=None, compare=False)
    """The first of which it is not."""

    @property
    def of_newest(self) -> float:
        """The share of the newest rows."""
        return self.newest_true / self.newest if self.newest else 0.0

    @property
    def of_earlier(self) -> float:
        """The share of the rows before."""
        return self.earlier_true / self.earlier if self.earlier else 0.0

    @property
    def is_comparable(self) -> bool:
        """Whether there are rows of both kinds."""
        return self.newest > 0 and self.earlier > 0

    @property
    def departs(self) -> bool:
        """Whether the share of the newest rows is another one than before, and more than by chance."""
        least = max(LEAST_SHARE, LEAST_PART * min(self.of_earlier, 1 - self.of_earlier))
        return self.is_comparable and abs(self.of_newest - self.of_earlier) > max(least, self.chance)

    @property
    def appears(self) -> bool:
        """Whether it was true of hardly any row before, and is now true of more than chance explains."""
        return self.departs and self.of_earlier <= LEAST_SHARE < self.of_newest

    @property
    def chance(self) -> float:
        """The greatest difference that chance explains."""
        if not self.is_comparable:
            return 1.0
        usual = (self.earlier_true + 1) / (self.earlier + 2)  # few earlier rows say little about the next one
        error = math.sqrt(usual * (1 - usual) * (1 / self.newest + 1 / self.earlier))
        return STANDARD_ERRORS * error + 1 / self.newest

    @property
    def first_other(self) -> TalliedPlace | None:
        """The first of the newest rows that is as more of them are than before."""
        return self.first_true if self.of_newest > self.of_earlier else self.first_false

    def plus(self, other: Tally) -> Tally:
        """Return the tally of the rows of both."""
        return replace(
            self,
            newest=self.newest + other.newest,
            newest_true=self.newest_true + other.newest_true,
            earlier=self.earlier + other.earlier,
            earlier_true=self.earlier_true + other.earlier_true,
            first_true=_first(self.first_true, other.first_true),
            first_false=_first(self.first_false, other.first_false),
        )


def _first(one: TalliedPlace | None, other: TalliedPlace | None) -> TalliedPlace | None:
    return min((each for each in (one, other) if each is not None), default=None)
