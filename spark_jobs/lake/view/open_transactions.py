"""Transactions that have not ended: their producers, their ages, and whether they hang.

A log is published up to the first offset of its oldest open transaction. Its age is the run's clock minus the greatest
timestamp of its first batch, as in ``loglake transactions``.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.errors import TableUnreadable
from spark_jobs.lake.delta.tables.snapshots import read_rows

HANGING_MS = 15 * 60_000
"""Kafka's default ``transaction.max.timeout.ms``. With it no coordinator lets a transaction live longer: an older one
has lost its coordinator (KIP-664)."""
_ONGOING = "Ongoing"
_LONGEST = 100
"""Characters of a transactional id that are shown."""


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
    transactional_ids: tuple[str, ...] = ()
    """Transactional ids that have or had its producer id, by the cluster's `__transaction_state`: one, or none."""
    timeout_ms: int | None = None
    """Its timeout, if its coordinator knows it as ongoing in this partition: it may be above the default."""

    def age_ms(self, as_of_ms: int) -> int | None:
        """Return the time since it began; never negative, with any producer's clock."""
        return None if self.since_ms is None else max(as_of_ms - self.since_ms, 0)

    def hangs(self, as_of_ms: int) -> bool:
        """Return whether it is older than its coordinator, or any with the default setting, allows."""
        age = self.age_ms(as_of_ms)
        return age is not None and age > max(HANGING_MS, self.timeout_ms or 0)

    def described(self, as_of_ms: int) -> str:
        """``producer 7 epoch 0 (transactional id "billing") from offset 21 on, open for 17 min``."""
        age = self.age_ms(as_of_ms)
        since = "since an unknown time" if age is None else f"for {duration(age)}"
        return f"{self.producer} from offset {self.first_offset} on, open {since}"

    @property
    def producer(self) -> str:
        """``producer 7 epoch 0 (transactional id "billing")``."""
        names = " or ".join(json.dumps(name[:_LONGEST], ensure_ascii=False) for name in self.transactional_ids)
        known = f" (transactional id {names})" if names else ""
        return f"producer {self.producer_id} epoch {self.producer_epoch}{known}"


def read_open_transactions(lake: str) -> dict[str, list[OpenTransaction]]:
    """Return open transactions by log key, oldest first; logs without any are left out."""
    columns = ["log", "topic", "partition", "producer_id", "producer_epoch", "first_offset", "last_offset"]
    found: dict[str, list[OpenTransaction]] = {}
    for row in read_rows(lake, "transactions", columns, [("state", "==", "open")]).to_pylist():
        place = f"{row['topic']}-{row['partition']}"
        numbers = (row["producer_id"], row["producer_epoch"], row["first_offset"], row["last_offset"])
        found.setdefault(row["log"], []).append(OpenTransaction(row["log"], place, *numbers, None))
    coordinators = _coordinators(lake, {each.producer_id for of_log in found.values() for each in of_log})
    for log, transactions in found.items():
        transactions.sort(key=lambda each: each.first_offset)
        transactions[0] = replace(transactions[0], since_ms=_began(lake, log, transactions[0].first_offset))
        found[log] = [
            replace(
                each,
                transactional_ids=tuple(sorted(coordinators.names.get(each.producer_id, ()))),
                timeout_ms=coordinators.timeouts.get((each.producer_id, each.topic_partition)),
            )
            for each in transactions
        ]
    return found


@dataclass(frozen=True, slots=True)
class _Coordinators:
    """What coordinators know of producers.

    Attributes:
        names: Transactional ids by producer id. The epoch is not compared: a coordinator that aborts a transaction
            raises its own epoch first, and no producer id has two transactional ids.
        timeouts: Of ongoing transactions, by producer id and topic partition.
    """

    names: dict[int, set[str]] = field(default_factory=dict)
    timeouts: dict[tuple[int, str], int] = field(default_factory=dict)


def _coordinators(lake: str, producer_ids: Collection[int]) -> _Coordinators:
    found = _Coordinators()
    if not producer_ids:
        return found
    table = "cluster_transactional_ids"
    columns = ["producer_id", "transactional_id", "state", "partitions", "timeout_ms"]
    try:
        for row in read_rows(lake, table, columns, [("producer_id", "in", sorted(producer_ids))]).to_pylist():
            found.names.setdefault(row["producer_id"], set()).add(row["transactional_id"])
            if row["state"] == _ONGOING:
                found.timeouts.update({(row["producer_id"], each): row["timeout_ms"] for each in row["partitions"]})
        if not found.names.keys() >= set(producer_ids):  # no statistics find these
            rows = _naming(read_rows(lake, table, ["other_producer_ids", "transactional_id"]), producer_ids)
            for row in rows.to_pylist():
                for producer_id in set(producer_ids).intersection(row["other_producer_ids"]):
                    found.names.setdefault(producer_id, set()).add(row["transactional_id"])
    except TableUnreadable:  # other checks report the table
        return _Coordinators()
    return found


def _naming(rows: pa.Table, producer_ids: Collection[int]) -> pa.Table:
    """Rows that have one of these ids among the other ones."""
    others = rows["other_producer_ids"].combine_chunks()
    named = pc.is_in(pc.list_flatten(others), pa.array(sorted(producer_ids), pa.int64()))
    return rows.take(pc.unique(pc.list_parent_indices(others).filter(named)))


def _began(lake: str, log: str, offset: int) -> int | None:
    """Return the recorded greatest timestamp of the batch that has an offset."""
    where = [("log", "==", log), ("base_offset", "<", offset + 1), ("last_offset", ">=", offset)]
    noted = read_rows(lake, "batches", ["max_timestamp"], where)["max_timestamp"].to_pylist()
    return max((time for time in noted if time is not None and time >= 0), default=None)


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
