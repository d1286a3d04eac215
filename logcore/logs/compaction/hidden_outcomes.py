"""Transactions whose outcome damage hides: open where bytes are damaged, so their marker may have been there.

Then the next marker of the producer may belong to another transaction, so it decides nothing (as in
`logcore.logs.model.transactions`). Two transaction indexes can decide: those of the damaged segment and of the segment
with that marker. An abort that is not in them did not happen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from logcore.logs.model.findings import Finding, found
from logcore.logs.model.producers.producer_state import Completed


class HiddenOutcomes:
    """Gets damage and markers, segment by segment. `first_offsets` are those of the undecidable transactions."""

    def __init__(self) -> None:
        self.first_offsets: list[int] = []
        self._across: dict[int, int] = {}
        """First offset by producer id: open at damage in an earlier segment, whose index does not end them."""
        self._hidden: dict[int, int] = {}
        """The same for damage in this segment."""
        self._ended: dict[int, int] = {}
        """Those with a later marker in this segment."""

    def damaged(self, open_from: Mapping[int, int]) -> None:
        """Bytes are damaged. `open_from` has the first offset of each transaction open there, by producer id."""
        self._hidden |= open_from

    def ended(self, done: Completed) -> None:
        """A marker was read."""
        first = self._across.pop(done.producer_id, None)
        if first is not None:
            self._ended[done.producer_id] = first

    def end_segment(self, *, is_stated: bool) -> Iterator[Finding]:
        """End the segment. `is_stated`: its transaction index shows which of its markers aborted what."""
        if not is_stated:
            for producer_id, first in {**self._hidden, **self._ended}.items():
                self.first_offsets.append(first)
                yield found(
                    "transaction-outcome-lost",
                    f"producer {producer_id} had a transaction open, begun at offset {first}, where bytes are damaged, "
                    "and no transaction index has its outcome: nothing from there on is cleaned",
                    start_offset=first,
                )
        else:
            self._across |= self._hidden
        self._hidden, self._ended = {}, {}
