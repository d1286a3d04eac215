"""What an operator should know about a lake now, as short values: damage, stopped logs, old transactions, lag."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spark_jobs.lake.view.alarms import damage_of, stops_of
from spark_jobs.lake.view.lake_state import LakeState


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem. Two with the same ``kind`` and ``place`` are the same problem, whatever their numbers are now."""

    kind: str
    """``damage``, ``stopped``, ``hanging-transaction`` or ``lag``."""
    place: str
    """Log and offsets, for people."""
    what: str
    """One sentence."""


def problems_of(state: LakeState, now_ms: int, max_lag: int | None) -> tuple[Problem, ...]:
    """Return the problems of a lake, by kind and log.

    Args:
        state: The lake.
        now_ms: The clock, epoch milliseconds.
        max_lag: Offsets that a log may have ingested and not published; None: any number.
    """
    return tuple(_problems(state, now_ms, max_lag))


def _problems(state: LakeState, now_ms: int, max_lag: int | None) -> Iterator[Problem]:
    for alarm in damage_of(state):
        yield Problem("damage", alarm.where, f"{alarm.rule}: {alarm.message}")
    for alarm in stops_of(state):
        yield Problem("stopped", alarm.topic_partition, f"{alarm.rule}: {alarm.message}")
    for log in state.logs:
        if log.open_transactions and log.open_transactions[0].hangs(now_ms):
            oldest = log.open_transactions[0]
            yield Problem("hanging-transaction", log.topic_partition, oldest.described(now_ms))
        lag = log.row.next_offset - (log.published_to or 0)
        if max_lag is not None and lag > max_lag:
            yield Problem("lag", log.topic_partition, f"{lag:,} offsets are ingested and not published")
