"""The transactions of a log whose batches are all at hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from logcore.logs.model.batch_facts import BatchFact
from logcore.logs.model.gaps import GapRules
from logcore.logs.model.transactions import Ongoing, TransactionView, TransactionWalk


def derive_transactions(
    batches: Iterable[BatchFact],
    *,
    high_watermark: int,
    log_start_offset: int = 0,
    cleaner_checkpoint: int | None = None,
    compacted_by_policy: bool = False,
    gap_evidence: Sequence[tuple[int, int, str]] = (),
    ongoing: Iterable[Ongoing] = (),
    start_offset: int | None = None,
) -> TransactionView:
    """Derive the outcome of every transaction of a log from its batches, in offset order."""
    walk = TransactionWalk(
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        rules=GapRules(cleaner_checkpoint, compacted_by_policy, gap_evidence),
        ongoing=ongoing,
        start_offset=start_offset,
    )
    for _ in walk.over(batches):
        pass
    return walk.view()
