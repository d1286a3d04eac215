"""Transactions whose outcome damage hides: open where bytes are damaged, and their marker may have been there.

The next marker of the producer may be another transaction's then, so it decides nothing (as in
`logcore.logs.model.transactions`). What can tell is the transaction index of the damaged segment, and of the one with
that marker: an abort that is not in them did not happen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from logcore.logs.model.findings import Finding, found
from logcore.logs.model.producer_state import Completed


class HiddenOutcomes:
    """Told of damage and of markers, segment by segment. first_offsets: of the transactions nobody can decide."""

    def __init__(self) -> None:
        self.first_offsets: list[int] = []
        self._across: dict[int, int] = {}
        """Producer id: first offset of what it had open at damage in an earlier segment, whose index says no more."""
        self._hidden: dict[int, int] = {}
        """The same of damage in this segment."""
        self._ended: dict[int, int] = {}
        """Of these, those of which a later marker was seen in this segment."""

    def damaged(self, open_from: Mapping[int, int]) -> None:
        """Bytes are damaged. open_from: first offset of each transaction that is open there, by producer id."""
        self._hidden |= open_from

    def ended(self, done: Completed) -> None:
        """A marker was read."""
        first = self._across.pop(done.producer_id, None)
        if first is not None:
            self._ended[done.producer_id] = first

    def end_segment(self, *, is_stated: bool) -> Iterator[Finding]:
        """The segment is over. is_stated: its transaction index says which of the markers in it aborted what."""
        if not is_stated:
            for producer_id, first in {**self._hidden, **self._ended}.items():
                self.first_offsets.append(first)
                yield found(
                    "transaction-outcome-lost",
                    f"producer {producer_id} had a transaction open, begun at offset {first}, where bytes are damaged, "
                    "and no transaction index says what became of it: nothing from there on is cleaned",
                    start_offset=first,
                )
        else:
            self._across |= self._hidden
        self._hidden, self._ended = {}, {}
