"""The facts of a log's batches that decide transactions and the ledger, by the verdicts of `verify`.

Of tables, whole committed transactions and batches that nothing distinguishes become one fact each
(`logcore.columns.checking.committed_runs`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from logcore.logs.model.batch_facts import BatchFact, fact_of
from logcore.logs.model.gaps import GapRules
from logcore.logs.model.sources import SourceLog
from logcore.logs.model.transactions import Transaction, TransactionState, TransactionView, TransactionWalk
from logcore.reading.checked_segments import checked_items
from logcore.reading.read_options import Notes
from logcore.records.control import ControlType
from logcore.segments.scanning.scan import ScannedBatch, Stretch

if TYPE_CHECKING:
    import pyarrow as pa

    from logcore.columns.decoding.batch_table import Table

MAX_TIME_MS = (1 << 63) - 1


class LogBatchFacts:
    """Iterates once over the facts of a log. The attributes are complete afterwards.

    Args:
        log: The log.
        notes: Gets the findings about its bytes.
        walk: It takes each fact before it asks for the next.
        cuts: Ascending offsets that transactions or ledger distinguish.
        rules: As for `checked_items`.
        until_ms: Later times of batches do not count: the clock of a producer may be wrong.

    Attributes:
        newest_ms: The newest time of a batch; -1 without one.
        end: The offset after the last batch.
        is_partial: A segment was not read to its end.
        damage_at_end: Why the bytes after the last batch cannot be trusted; None without such bytes, or while they are
            written.
        begun: By (producer id, first offset), the first fact of each transaction that no marker decided.
    """

    def __init__(
        self,
        log: SourceLog,
        notes: Notes,
        walk: TransactionWalk,
        cuts: Sequence[int],
        rules: GapRules | None = None,
        until_ms: int = MAX_TIME_MS,
    ) -> None:
        self._log, self._notes, self._walk, self._cuts, self._rules = log, notes, walk, cuts, rules
        self._until_ms = until_ms
        self.newest_ms = -1
        self._current: dict[int, tuple[int, int]] = {}
        self._settled: list[pa.RecordBatch] = []
        self.end = 0
        self.is_partial = False
        self.damage_at_end: str | None = None
        self.begun: dict[tuple[int, int], BatchFact] = {}

    def __iter__(self) -> Iterator[BatchFact]:
        said = len(self._notes.findings)
        for segment, item in checked_items(self._log, self._log.segments, self._notes, self._rules):
            if isinstance(item, Stretch) and item.spare:  # no offset is in it, so nothing of the log is damaged
                continue
            self.damage_at_end = str(item.reason) if isinstance(item, Stretch) and not item.tail else None
            facts: Iterable[BatchFact]
            self.newest_ms = max(self.newest_ms, self._newest(item))
            if isinstance(item, Stretch | ScannedBatch):
                facts = (fact_of(item, segment.path),)
            else:
                from logcore.columns.checking.committed_runs import facts_of_table

                facts = facts_of_table(item, segment.path, self._cuts, self._walk, self._settled)
            for fact in facts:
                if fact.last_offset is not None:
                    self.end = fact.next_offset
                if fact.is_transactional:
                    self._note_begin(fact)
                yield fact
        # A finding without a position concerns the whole file.
        self.is_partial = any(each.position is None for each in self._notes.findings[said:])

    def _newest(self, item: Stretch | ScannedBatch | Table) -> int:
        if isinstance(item, Stretch):
            return -1
        if isinstance(item, ScannedBatch):
            return item.header.max_timestamp if item.header.max_timestamp <= self._until_ms else -1
        from logcore.columns.kernels import batch_row

        times = item[:, batch_row.MAX_TIMESTAMP]
        return int(times.max(initial=-1, where=times <= self._until_ms))

    def view(self) -> TransactionView:
        """The view of the walk, with the transactions that were settled in tables. Call it once."""
        view = self._walk.view()
        settled = (
            Transaction(*numbers, TransactionState.COMMITTED, epoch)  # type: ignore[call-arg]
            for batch in self._settled
            for *numbers, _, epoch in zip(*batch.to_pydict().values(), strict=True)
        )
        return replace(view, transactions=tuple(sorted((*view.transactions, *settled), key=lambda t: t.first_offset)))

    def _note_begin(self, fact: BatchFact) -> None:
        if not fact.is_control:
            key = self._current.setdefault(fact.producer_id, (fact.producer_id, fact.base_offset))
            self.begun.setdefault(key, fact)
        elif fact.control_type in (ControlType.COMMIT, ControlType.ABORT):
            decided = self._current.pop(fact.producer_id, None)
            if decided is not None and fact.base_offset < self._walk.high_watermark:
                del self.begun[decided]
