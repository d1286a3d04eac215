"""Transactions that have not ended: their producers, their ages, and whether they hang.

A log is published up to the first offset of its oldest open transaction. Its age is the run's clock minus the greatest
timestamp of its first batch, as in ``loglake transactions``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spark_jobs.lake.delta.tables import read_rows

HANGING_MS = 15 * 60_000
"""Kafka's default ``transaction.max.timeout.ms``. No coordinator lets a transaction live longer, so an older one has
lost its coordinator (KIP-664)."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction without a marker below the high watermark."""

    log: str
    topic_partition: str
    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    since_ms: int | None
    """Greatest timestamp of its first batch; None if that has none, or the transaction is not its log's oldest."""

    def age_ms(self, as_of_ms: int) -> int | None:
        """Return the time since it began; never negative, with any producer's clock."""
        return None if self.since_ms is None else max(as_of_ms - self.since_ms, 0)

    def hangs(self, as_of_ms: int) -> bool:
        """Return whether it is older than any coordinator allows."""
        age = self.age_ms(as_of_ms)
        return age is not None and age > HANGING_MS

    def described(self, as_of_ms: int) -> str:
        """``producer 7 epoch 0 from offset 21 on, open for 17 min``."""
        age = self.age_ms(as_of_ms)
        since = "since an unknown time" if age is None else f"for {duration(age)}"
        return (
            f"producer {self.producer_id} epoch {self.producer_epoch} from offset {self.first_offset} on, open {since}"
        )


def read_open_transactions(lake: str, logs: Sequence[str] | None = None) -> dict[str, list[OpenTransaction]]:
    """Return open transactions by log key, oldest first; logs without any are left out."""
    where: list[tuple[str, str, object]] = [("state", "==", "open")]
    if logs is not None:
        where.append(("log", "in", list(logs)))
    columns = ["log", "topic", "partition", "producer_id", "producer_epoch", "first_offset", "last_offset"]
    found: dict[str, list[OpenTransaction]] = {}
    for row in read_rows(lake, "transactions", columns, where).to_pylist():
        place = f"{row['topic']}-{row['partition']}"
        numbers = (row["producer_id"], row["producer_epoch"], row["first_offset"], row["last_offset"])
        found.setdefault(row["log"], []).append(OpenTransaction(row["log"], place, *numbers, None))
    for log, transactions in found.items():
        transactions.sort(key=lambda each: each.first_offset)
        transactions[0] = replace(transactions[0], since_ms=_began(lake, log, transactions[0].first_offset))
    return found


def _began(lake: str, log: str, offset: int) -> int | None:
    """Return the recorded greatest timestamp of the batch that has an offset."""
    where: list[tuple[str, str, object]] = [("log", "==", log), ("base_offset", "<", offset + 1)]
    where.append(("last_offset", ">=", offset))
    noted = read_rows(lake, "batches", ["max_timestamp"], where)["max_timestamp"].to_pylist()
    times = [time for time in noted if time is not None and time >= 0]
    return max(times, default=None)


def duration(ms: int) -> str:
    """``17 min``, ``3 h 5 min``, ``12 days``."""
    minutes = ms // 60_000
    if minutes < 1:
        return f"{ms // 1000} s"
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // (24 * 60)} days"
