"""Which transactions a round of cleaning meets, and what may leave of them.

Fed in the order of offsets over all segments of a round, and once more, by itself, over the dirty part for the map:

    batch                       discardable
    data, aborted               yes; the transaction counts as seen
    data, other                 no; a transactional one makes its producer's COMMIT stay
    ABORT marker                unless data of the transaction was seen. If it was, the entry of the transaction index
                                goes along with the marker
    COMMIT marker               unless data of the producer was seen since its last marker
    control batch, no record    yes: it was cleaned before
    any other control batch     no

So a marker goes only in a round that finds nothing left of its transaction. Whether that is at once is not decided
here: markers wait for their delete horizon (`retained_batch`).

What is known between two groups of segments is a `CleanedTransactionState`: whoever cleans a group by itself begins
with it.

Source: Kafka CleanedTransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from heapq import heapify, heappop, heappush
from typing import Any

from logcore.records.control import ControlType
from logcore.segments.side_files.transaction_index import AbortedTransaction


@dataclass(frozen=True, slots=True)
class CleanedTransactionState:
    """What is known at one place of the log; all tuples in a canonical order, so that equal states are equal.

    waiting: aborted transactions that begin further on. aborting: those that began, and whether data of them was seen.
    committing: producer ids of which data was seen that nothing aborts.
    """

    waiting: tuple[AbortedTransaction, ...] = ()
    aborting: tuple[tuple[AbortedTransaction, bool], ...] = ()
    committing: tuple[int, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Numbers and lists alone, for JSON."""
        return {
            "waiting": [list(astuple(each)) for each in self.waiting],
            "aborting": [[*astuple(each), seen] for each, seen in self.aborting],
            "committing": list(self.committing),
        }

    @classmethod
    def from_dict(cls, stated: Mapping[str, Any]) -> CleanedTransactionState:
        """The state that `as_dict` was made of."""
        return cls(
            tuple(AbortedTransaction(*each) for each in stated["waiting"]),
            tuple((AbortedTransaction(*each[:4]), bool(each[4])) for each in stated["aborting"]),
            tuple(stated["committing"]),
        )


@dataclass(slots=True)
class _Aborting:
    transaction: AbortedTransaction
    seen: bool


class CleanedTransactions:
    """The tracker. `add` what the transaction indexes say in front of a segment, then tell it every batch."""

    def __init__(self, state: CleanedTransactionState | None = None) -> None:
        start = CleanedTransactionState() if state is None else state
        self._waiting = [(each.first_offset, astuple(each), each) for each in start.waiting]
        heapify(self._waiting)
        self._aborting = {each.producer_id: _Aborting(each, seen) for each, seen in start.aborting}
        self._committing = set(start.committing)

    def state(self) -> CleanedTransactionState:
        """What is known now. Transactions that were added more than once are in it once."""
        return CleanedTransactionState(
            tuple(each for _, _, each in sorted({entry[1]: entry for entry in self._waiting}.values())),
            tuple((each.transaction, each.seen) for _, each in sorted(self._aborting.items())),
            tuple(sorted(self._committing)),
        )

    def add(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Aborted transactions that begin in front of the end of the next segment. The same one may come again for as
        long as its marker was not passed."""
        for each in aborted:
            heappush(self._waiting, (each.first_offset, astuple(each), each))

    def forget_ended(self, offset: int) -> None:
        """Drop what ended below an offset, where a stretch was left out and its markers were not seen, nor perhaps
        any batch of what began there."""
        self._waiting = [each for each in self._waiting if each[2].last_offset >= offset]
        heapify(self._waiting)
        for producer_id in [pid for pid, each in self._aborting.items() if each.transaction.last_offset < offset]:
            del self._aborting[producer_id]

    def data(self, last_offset: int, producer_id: int, *, is_transactional: bool) -> bool:
        """Whether a batch of data was aborted."""
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
        """Of a control batch (kind None: without a record): whether nothing is left that it says something about, and
        for an ABORT the transaction that it ends, if that is one of those added."""
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
        """Aborted transactions that begin at or below an offset are under way."""
        while self._waiting and self._waiting[0][0] <= last_offset:
            _, _, begun = heappop(self._waiting)
            self._aborting.setdefault(begun.producer_id, _Aborting(begun, False))
