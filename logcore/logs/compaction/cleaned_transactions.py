"""The transactions in a round of cleaning, and which of their batches may be removed.

Batches come in the order of offsets over all segments of a round. Another tracker gets those of the dirty part, for the
map:

    batch                       discardable
    data, aborted               yes; the transaction counts as seen
    data, other                 no; a transactional one keeps its producer's COMMIT
    ABORT marker                unless data of the transaction was seen. If it was, the entry of the transaction index
                                is kept with the marker
    COMMIT marker               unless data of the producer was seen since its last marker
    control batch, no record    yes: it was cleaned before
    any other control batch     no

So a marker is removed only in a round that finds nothing left of its transaction. Other rules delay that: markers wait
for their delete horizon (`retained_batch`).

A `CleanedTransactionState` is the state between two groups of segments. A cleaner that gets a single group begins with
it.

Source: Kafka CleanedTransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from heapq import heapify, heappop, heappush

from logcore.records.control import ControlType
from logcore.segments.side_files.transaction_index import AbortedTransaction


@dataclass(frozen=True, slots=True)
class CleanedTransactionState:
    """The state at one place of the log. All tuples are in a canonical order, so that equal states are equal.

    Attributes:
        waiting: Aborted transactions that begin later.
        aborting: Those that have begun, and whether data of them was seen.
        committing: Producer ids with data that no transaction aborts.
    """

    waiting: tuple[AbortedTransaction, ...] = ()
    aborting: tuple[tuple[AbortedTransaction, bool], ...] = ()
    committing: tuple[int, ...] = ()


@dataclass(slots=True)
class _Aborting:
    transaction: AbortedTransaction
    seen: bool


class CleanedTransactions:
    """Tracks transactions. Call `add` with the transaction indexes before a segment, then pass every batch."""

    def __init__(self, state: CleanedTransactionState | None = None) -> None:
        start = CleanedTransactionState() if state is None else state
        self._waiting = [(each.first_offset, astuple(each), each) for each in start.waiting]
        heapify(self._waiting)
        self._aborting = {each.producer_id: _Aborting(each, seen) for each, seen in start.aborting}
        self._committing = set(start.committing)

    def state(self) -> CleanedTransactionState:
        """The present state. Transactions that were added more than once are in it once."""
        return CleanedTransactionState(
            tuple(each for _, _, each in sorted({entry[1]: entry for entry in self._waiting}.values())),
            tuple((each.transaction, each.seen) for _, each in sorted(self._aborting.items())),
            tuple(sorted(self._committing)),
        )

    def add(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Add aborted transactions that begin before the end of the next segment. The same one may be added again until
        its marker was passed.
        """
        for each in aborted:
            heappush(self._waiting, (each.first_offset, astuple(each), each))

    def forget_ended(self, offset: int) -> None:
        """Remove transactions that ended below an offset. Before it a stretch was left out, with their markers and
        perhaps some of their batches.
        """
        self._waiting = [each for each in self._waiting if each[2].last_offset >= offset]
        heapify(self._waiting)
        for producer_id in [pid for pid, each in self._aborting.items() if each.transaction.last_offset < offset]:
            del self._aborting[producer_id]

    def data(self, last_offset: int, producer_id: int, *, is_transactional: bool) -> bool:
        """Pass a data batch. Returns whether it was aborted."""
        self._begin(last_offset)
        if not is_transactional:
            return False
        aborting = self._aborting.get(producer_id)
        if aborting is None:
            self._committing.add(producer_id)
            return False
        aborting.seen = True
        return True

    def control(
        self, last_offset: int, producer_id: int, kind: ControlType | None
    ) -> tuple[bool, AbortedTransaction | None]:
        """Pass a control batch; `kind` is None if it has no record.

        Returns:
            Whether nothing is left of its transaction, and for an ABORT the transaction that it ends, if it was added.
        """
        self._begin(last_offset)
        if kind is None:
            return True, None
        if kind is ControlType.ABORT:
            ended = self._aborting.pop(producer_id, None)
            if ended is None:
                return True, None
            return not ended.seen, ended.transaction
        if kind is ControlType.COMMIT:
            seen = producer_id in self._committing
            self._committing.discard(producer_id)
            return not seen, None
        return False, None

    def _begin(self, last_offset: int) -> None:
        """Begin the aborted transactions whose first offset is at or below an offset."""
        while self._waiting and self._waiting[0][0] <= last_offset:
            _, _, begun = heappop(self._waiting)
            self._aborting.setdefault(begun.producer_id, _Aborting(begun, False))
