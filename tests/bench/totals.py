"""What two readings of the same records must have in common before their times are compared: counts and sums."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

_WRAP = 1 << 64


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts and sums over records. Sums of offsets and timestamps wrap as int64."""

    records: int = 0
    offset_sum: int = 0
    timestamp_sum: int = 0
    key_bytes: int = 0
    value_bytes: int = 0
    headers: int = 0
    header_bytes: int = 0
    """Characters of names plus bytes of values."""
    null_keys: int = 0
    null_values: int = 0

    def __add__(self, other: Totals) -> Totals:
        sums = {each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(Totals)}
        for name in ("offset_sum", "timestamp_sum"):
            sums[name] = (sums[name] + _WRAP // 2) % _WRAP - _WRAP // 2
        return Totals(**sums)


class Differ(Exception):
    """Two readers did not see the same records, so their times mean nothing."""


def same(what: str, ours: object, theirs: object, names: Iterable[str]) -> None:
    """Compare attributes of two readings.

    :raises Differ: naming the first that differs.
    """
    for name in names:
        if getattr(ours, name) != getattr(theirs, name):
            raise Differ(f"{what}: {name} is {getattr(ours, name)} here and {getattr(theirs, name)} there")
