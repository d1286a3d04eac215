"""The facts about a batch that decide the state of its offsets.

A log may have as many batches as records (before v2 every uncompressed message is one). So `fold` joins neighbours that
no longer differ. Then a plain log of millions of batches is a handful of facts.

Belongs here: the value and its folding. `logcore.logs.checks.validation` creates facts.
`logcore.logs.model.transactions` and `logcore.logs.model.offset_ledger` interpret them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from logcore.records.control import ControlType
from logcore.segments.scanning.scan import ScannedBatch, Stretch

VERDICT_OK = "ok"
"""Verdict of a batch that can be trusted. Any other verdict is a corruption reason."""


@dataclass(frozen=True, slots=True)
class BatchFact:
    """The facts about one batch, or about a stretch of bytes that cannot be trusted.

    Attributes:
        base_offset: For a stretch the offset that was expected there.
        last_offset: Inclusive; None for a stretch.
        control_type: None for data, and for a control batch whose record cleaning removed.
        verdict: For a stretch the reason. All other fields of a stretch but its place have no meaning.
        markers: Of a run of whole committed transactions: the COMMIT markers among its batches, which `record_count`
            leaves out. Such a run has no producer and does not count as transactional.
    """

    base_offset: int
    last_offset: int | None
    record_count: int
    producer_id: int
    producer_epoch: int
    is_transactional: bool
    is_control: bool
    control_type: str | None
    verdict: str
    segment_id: str
    position: int
    size: int
    leader_epoch: int
    markers: int = 0

    @property
    def is_commit(self) -> bool:
        """Whether it is a COMMIT marker."""
        return self.is_control and self.control_type == ControlType.COMMIT

    @property
    def next_offset(self) -> int:
        """Offset after the batch; for a stretch the offset expected where it begins."""
        return self.base_offset if self.last_offset is None else self.last_offset + 1


def fact_of(item: ScannedBatch | Stretch, segment_id: str) -> BatchFact:
    """The facts of one step of a segment's scan."""
    if isinstance(item, Stretch):
        reason = str(item.reason)
        return BatchFact(
            item.offset, None, 0, -1, -1, False, False, None, reason, segment_id, item.position, item.size, -1
        )
    header = item.header
    return BatchFact(
        header.base_offset,
        header.last_offset,
        header.record_count,
        header.producer_id,
        header.producer_epoch,
        header.is_transactional,
        header.is_control,
        None if item.control_type is None else str(item.control_type),
        VERDICT_OK,
        segment_id,
        item.position,
        header.size,
        header.partition_leader_epoch,
    )


def fold(facts: Iterable[BatchFact], cuts: Sequence[int] = ()) -> Iterator[BatchFact]:
    """Join neighbouring facts that have the same meaning for a ledger.

    Only for facts that were already used to derive transactions (`logcore.logs.model.transactions`). Joining loses the
    producer of a batch outside a transaction, and the types of control batches other than COMMIT markers.

    Args:
        facts: In the order of offsets.
        cuts: Offsets where a ledger will be cut. Facts with gaps are not joined across a cut, because at a cut only the
            records of a single batch can be counted.
    """
    ordered = sorted(cuts)
    held: BatchFact | None = None
    count, markers, end = 0, 0, 0
    for fact in facts:
        if held is not None and fact.base_offset == end and _alike(held, fact):
            whole = held.base_offset + count == end and fact.record_count == fact.next_offset - end
            if whole or bisect_right(ordered, held.base_offset) == bisect_left(ordered, fact.next_offset):
                count += fact.record_count
                markers += fact.markers
                end = fact.next_offset
                continue
        if held is not None:
            yield _run(held, count, markers, end)
        held, count, markers, end = fact, fact.record_count, fact.markers, fact.next_offset
    if held is not None:
        yield _run(held, count, markers, end)


def _alike(first: BatchFact, second: BatchFact) -> bool:
    if first.verdict != VERDICT_OK or second.verdict != VERDICT_OK:
        return False
    if (first.markers == 0) != (second.markers == 0):
        return False
    if first.is_control != second.is_control or (first.record_count == 0) != (second.record_count == 0):
        return False
    if first.is_control:
        return first.is_commit == second.is_commit
    # A transaction begins only where a batch of its producer begins. So the last stable offset is never inside a run.
    return first.is_transactional == second.is_transactional and (
        not first.is_transactional or first.producer_id == second.producer_id
    )


def _run(first: BatchFact, count: int, markers: int, end: int) -> BatchFact:
    if first.last_offset is None or first.last_offset + 1 == end:
        return first
    return replace(first, last_offset=end - 1, record_count=count, markers=markers)
