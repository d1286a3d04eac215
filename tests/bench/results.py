"""One line of the results page: what was compared, the figure, the target."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tests.bench.rounds import MOST_SPREAD, Outcome, Times


class Unit(StrEnum):
    """What a line's figure is."""

    TIMES_AS_FAST = "×"
    OF_THE_LIMIT = "of the limit"
    OF_ITS_SPEED = "of its speed"
    SECONDS = "s"
    MIB = "MiB"
    BYTES = "B"
    ROWS = "rows"
    RECORDS_A_SECOND = "records/s"
    TIMES_AS_LONG = "× as long"
    REQUESTS = "requests"
    CHUNKS = "chunks"
    PERCENT = "%"

    @property
    def more_is_better(self) -> bool:
        return self in (Unit.TIMES_AS_FAST, Unit.OF_THE_LIMIT, Unit.OF_ITS_SPEED, Unit.RECORDS_A_SECOND)


class Verdict(StrEnum):
    """How a figure compares with its target."""

    AIM = "aim"
    MUST = "must"
    MISSED = "**missed**"
    VOID = "void"
    """The times spread too far to prove anything."""
    TOLD = ""
    """Nothing was asked for."""


@dataclass(frozen=True, slots=True)
class Line:
    """`low` and `high` are the figure's extremes over the rounds."""

    case: str
    against: str
    unit: Unit
    figure: float
    low: float
    high: float
    ours: str
    theirs: str
    must: float | None = None
    aim: float | None = None
    noisy: bool = False
    void_sets: int = 0

    @property
    def verdict(self) -> Verdict:
        if self.must is None:
            return Verdict.TOLD
        if self.noisy:
            return Verdict.VOID
        if self.aim is not None and self._reaches(self.aim):
            return Verdict.AIM
        return Verdict.MUST if self._reaches(self.must) else Verdict.MISSED

    def _reaches(self, target: float) -> bool:
        return self.figure >= target if self.unit.more_is_better else self.figure <= target

    def text(self) -> str:
        """For a person who watches."""
        marks = " NOISY" if self.noisy else ""
        asked = (
            ""
            if self.must is None
            else f"  must {number(self.must)}, aim {number(self.aim)}: {self.verdict.strip('*')}"
        )
        return (
            f"{self.case} / {self.against}: {number(self.figure)} {self.unit} "
            f"({number(self.low)}–{number(self.high)}){asked}{marks}\n    {self.ours} | {self.theirs}"
        )


def compared(
    case: str,
    outcome: Outcome,
    ours: str,
    theirs: str,
    *,
    raw_bytes: int,
    records: int,
    must: float | None = None,
    aim: float | None = None,
    unit: Unit = Unit.TIMES_AS_FAST,
) -> Line:
    """How many times as fast one contender is as another; of each, what it made of so many bytes and records."""
    first, second = outcome.times[ours], outcome.times[theirs]
    ratios = [b / a for a, b in zip(first.rounds, second.rounds, strict=True)]
    return Line(
        case,
        theirs,
        unit,
        second.median / first.median,
        min(ratios),
        max(ratios),
        rate(first, raw_bytes, records),
        rate(second, raw_bytes, records),
        must,
        aim,
        max(first.spread, second.spread) > MOST_SPREAD,
        outcome.void_sets,
    )


def rate(times: Times, raw_bytes: int, records: int) -> str:
    """Bytes and records a second; the median with its extremes."""
    middle = times.median
    spans = f"{seconds(middle)} ({seconds(min(times.rounds))}–{seconds(max(times.rounds))})"
    return f"{raw_bytes / middle / 1e6:,.0f} MB/s, {number(records / middle / 1e6)} Mrec/s, {spans}"


def seconds(value: float) -> str:
    """Seconds, or milliseconds below one."""
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.1f} ms" if value < 0.1 else f"{value * 1e3:.0f} ms"


def number(value: float | None) -> str:
    """Three digits that count."""
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
