"""A log that grew, and parts of which came late: its ledger made again over the earlier one is that of the whole log.

Only what was published before stays as it was. What was filled in below the frontier is not published.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from logcore.logs.ledger.ledger_builder import ledger_ranges
from logcore.logs.ledger.ledger_history import published_boundaries, rebuild_offset, rebuilt_ledger
from logcore.logs.model.batch_facts import fold
from logcore.logs.model.gaps import GapRules
from logcore.logs.model.offset_ledger import LedgerRange, OffsetState, check_tiling, mark_published
from logcore.logs.model.transactions import Ongoing, TransactionView, TransactionWalk
from spark_jobs.lake.table_specs import TRANSACTIONS
from spark_jobs.validate.validate_job import LogTransactions
from tests.property.logs.test_transactions_and_ledger import History, derive, facts, histories
from tests.sampling import examples

ALARMING = (OffsetState.MISSING, OffsetState.CORRUPT, OffsetState.UNKNOWN)


def as_stored(view: TransactionView) -> LogTransactions:
    rows = [
        {
            "producer_id": t.producer_id,
            "producer_epoch": t.producer_epoch,
            "first_offset": t.first_offset,
            "last_offset": t.last_offset,
            "marker_offset": t.marker_offset,
            "state": str(t.state),
        }
        for t in view.transactions
    ]
    return LogTransactions.of(pa.Table.from_pylist(rows, schema=TRANSACTIONS))


def rebuilt(
    history: History, start: int, known: LogTransactions, cuts: list[int]
) -> tuple[TransactionView, list[LedgerRange]]:
    """Transactions and ranges from ``start`` on, as the log pass makes them."""
    by_base = {entry.first: entry for entry in history.entries if entry.fate == "held"}
    batches = [f for f in facts(history) if (f.base_offset if f.last_offset is None else f.last_offset) >= start]
    ongoing = [Ongoing(*each) for each in known.ongoing_at(start)]
    begins_behind = bool(batches) and batches[0].base_offset >= start
    walk = TransactionWalk(
        high_watermark=history.high_watermark,
        log_start_offset=history.log_start,
        rules=GapRules(),
        ongoing=ongoing,
        start_offset=start if ongoing and begins_behind else None,
    )
    at = sorted({start, history.log_start, history.high_watermark, *cuts})
    folded = list(fold(walk.over(batches), at))
    view = walk.view()
    ranges = ledger_ranges(
        folded,
        view,
        start_offset=start,
        log_start_offset=history.log_start,
        high_watermark=history.high_watermark,
        log_end_offset=history.end,
        rules=GapRules(),
        records_from=lambda fact, cut: sum(offset >= cut for offset in by_base[fact.base_offset].offsets),
        cuts=cuts,
    )
    return view, list(ranges)


def decisive(history: History, producers: tuple[int, ...]) -> History:
    """The history with the high watermark at its end half of the time, and without transactions of these producers."""
    entries = tuple(
        replace(e, kind="data") if e.producer in producers and e.kind != "LEADER_CHANGE" else e for e in history.entries
    )
    return replace(history, entries=entries, high_watermark=history.end if producers else history.high_watermark)


def by_offset(ranges: list[LedgerRange]) -> list[OffsetState]:
    return [r.state for r in ranges for _ in range(r.offsets)]


def records(ranges: list[LedgerRange]) -> Counter[OffsetState]:
    counted: Counter[OffsetState] = Counter()
    for r in ranges:
        counted[r.state] += r.records
    return +counted


@pytest.mark.long
@settings(
    derandomize=True, max_examples=examples(2_500), deadline=None, suppress_health_check=[HealthCheck.filter_too_much]
)
@given(histories(), st.data())
def test_a_ledger_made_again_over_an_earlier_one_is_the_ledger_of_the_whole_log(
    drawn: History, data: st.DataObject
) -> None:
    history = decisive(replace(drawn, checkpoint=None), data.draw(st.sampled_from([(), (2,), (2, 3)])))
    held = [i for i, entry in enumerate(history.entries) if entry.fate == "held"]
    assume(held)
    last = data.draw(st.sampled_from(held))
    late = data.draw(st.sets(st.sampled_from(held[: held.index(last)]), max_size=4)) if held[0] != last else set()
    fate = data.draw(st.sampled_from(["gone", "corrupt"]))
    most = min(history.high_watermark, history.entries[last].last + 1)
    earlier = History(
        tuple(replace(e, fate=fate) if i in late else e for i, e in enumerate(history.entries[: last + 1])),
        None,
        data.draw(st.one_of(st.just(most), st.just(most), st.integers(0, most))),
        history.log_start,
    )
    view, ranges = derive(earlier)
    open_at = next((r.start_offset for r in ranges if r.state is OffsetState.OPEN), ranges[-1].end_offset)
    decided = [0, *(r.end_offset for r in ranges if r.end_offset <= open_at)]
    frontier = data.draw(st.one_of(st.just(max(decided)), st.sampled_from(decided)))
    before = mark_published(ranges, frontier)
    known = as_stored(view)
    changed = min((history.entries[i].first for i in late), default=None)

    start = rebuild_offset(before, changed, known.earliest_in_progress)
    now, made = rebuilt(history, start, known, published_boundaries(before, start, frontier))
    after = rebuilt_ledger(before, made, start, frontier)

    whole_view, whole = derive(history)
    check_tiling(after, 0, history.end)
    was = by_offset(before)
    expected = by_offset(list(whole))
    # A transaction that came late and is open holds back what is not published, not what is.
    held_back = {
        offset
        for offset in range(min(frontier, len(expected)))
        if expected[offset] is OffsetState.OPEN and was[offset] not in ALARMING
    }
    expected = [was[offset] if offset in held_back else state for offset, state in enumerate(expected)]
    assert by_offset(after) == expected
    if not held_back:
        assert records(after) == records(list(whole))
    assert not any(r.evidence == "changed-after-publishing" for r in after)
    stays = known.before(start).select(["first_offset", "marker_offset", "state"]).to_pylist()
    told = [(t["first_offset"], t["marker_offset"], t["state"]) for t in stays]
    told += [(t.first_offset, t.marker_offset, str(t.state)) for t in now.transactions]
    assert sorted(told, key=str) == sorted(
        ((t.first_offset, t.marker_offset, str(t.state)) for t in whole_view.transactions), key=str
    )
    markers = {entry.first for entry in history.entries if entry.kind == "COMMIT"}
    for r in after:
        for offset in set(range(r.start_offset, r.end_offset)) - markers:  # a marker is as the records beside it
            in_table = offset < frontier and was[offset] is OffsetState.PRESENT
            passed = offset < frontier and r.state is not OffsetState.PRESENT
            assert r.published == (in_table or passed)
    event(f"late: {bool(late)}, filled behind the frontier: {any(r.evidence == 'filled-late' for r in after)}")
    event(f"transactions in progress where it begins again: {bool(known.ongoing_at(start))}")
