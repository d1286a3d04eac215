"""Facts about batches, and the ledger that is made of them."""

from logcore.logs.ledger.ledger_builder import ledger_ranges
from logcore.logs.model.batch_facts import BatchFact
from logcore.logs.model.gaps import GapRules
from logcore.logs.model.offset_ledger import (
    LedgerRange,
    OffsetState,
)
from logcore.logs.model.transactions import TransactionView

HELD_BY_BATCH = {10: [10, 13, 17], 20: [20, 29]}
"""Offsets of the records of batches that have gaps, by base offset."""


def batch(first: int, last: int, records: int | None = None, *, producer: int = -1, transactional: bool = False):
    count = last - first + 1 if records is None else records
    return BatchFact(first, last, count, producer, 0, transactional, False, None, "ok", "s", first, 70, 0)


def records_from(fact: BatchFact, cut: int) -> int:
    return sum(offset >= cut for offset in HELD_BY_BATCH[fact.base_offset])


def ledger(*batches: BatchFact, end: int, transactions=(), stable: int | None = None, **given) -> list[tuple]:
    high_watermark = given.pop("high_watermark", end)
    view = TransactionView(tuple(transactions), high_watermark if stable is None else stable)
    rules = GapRules(
        given.pop("cleaner_checkpoint", None), given.pop("compacted_by_policy", False), given.pop("gap_evidence", ())
    )
    ranges = ledger_ranges(
        batches,
        view,
        high_watermark=high_watermark,
        log_end_offset=end,
        rules=rules,
        records_from=records_from,
        **({"start_offset": 0, "log_start_offset": 0} | given),
    )
    found = []
    for r in ranges:
        assert (r.gap_state is None) == (r.gaps == 0)
        marked = (r.markers,) if r.markers else ()
        found.append((r.start_offset, r.end_offset, str(r.state), r.records, r.gaps, r.evidence, *marked))
    return found


def plain(start: int, end: int, state: OffsetState = OffsetState.PRESENT, **counts) -> LedgerRange:
    return LedgerRange(start, end, state, **{"records": end - start} | counts)
