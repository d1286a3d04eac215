"""Any history of a log, computed twice: by the library from its batches, and by a model offset by offset.

The model knows no ranges and keeps no state: for every offset it looks back and forth over the whole history.
"""

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from logcore.logs.ledger.ledger_builder import ledger_ranges
from logcore.logs.model.batch_facts import BatchFact, fold
from logcore.logs.model.gaps import GapRules
from logcore.logs.model.offset_ledger import LedgerRange, check_tiling, restart_offset
from logcore.logs.model.transactions import TransactionView
from tests.derived_transactions import derive_transactions
from tests.sampling import examples

PRODUCERS = (1, 2, 3)


@dataclass(frozen=True)
class Entry:
    """A batch as it was appended, and what became of it: held, gone (no trace of it), corrupt (bytes without trust)."""

    first: int
    last: int
    kind: str  # data, transactional, COMMIT, ABORT, LEADER_CHANGE
    producer: int
    fate: str
    offsets: frozenset[int]  # of the records left in it

    @property
    def is_marker(self) -> bool:
        return self.kind in ("COMMIT", "ABORT")


@dataclass(frozen=True)
class History:
    entries: tuple[Entry, ...]
    checkpoint: int | None
    high_watermark: int
    log_start: int

    @property
    def end(self) -> int:
        return self.entries[-1].last + 1 if self.entries else 0


class Model:
    """The reference: slow on purpose, written from the words of the design alone."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.held = [entry for entry in history.entries if entry.fate == "held"]
        self.lost = {offset: fate for offset in range(history.end) if (fate := self.fate_of_unheld(offset))}
        undecided = [max(e.first, history.log_start) for e in self.transactional() if self.outcome(e) is None]
        self.stable = min([history.high_watermark, *undecided])

    def transactional(self) -> list[Entry]:
        return [e for e in self.held if e.kind == "transactional" and e.last >= self.history.log_start]

    def holder(self, offset: int) -> Entry | None:
        return next((entry for entry in self.held if entry.first <= offset <= entry.last), None)

    def fate_of_unheld(self, offset: int) -> str | None:
        """missing, corrupt or compacted, of the whole hole that the offset is in; None where a batch holds it."""
        if self.holder(offset) is not None:
            return None
        low = max((e.last + 1 for e in self.held if e.last < offset), default=0)
        high = min((e.first for e in self.held if e.first > offset), default=self.history.end)
        if any(e.fate == "corrupt" for e in self.history.entries if low <= e.first < high):
            return "corrupt"
        checkpoint = self.history.checkpoint
        return "compacted" if checkpoint is not None and high <= checkpoint else "missing"

    def outcome(self, entry: Entry) -> str | None:
        """COMMIT or ABORT of a transactional batch, LOST where a marker after a loss shows that it is over, None while
        it may still be decided."""
        for later in self.held:
            if later.first > entry.first and later.producer == entry.producer and later.is_marker:
                if later.first >= self.history.high_watermark:
                    return None
                between = range(entry.last + 1, later.first)
                blind = any(self.lost.get(offset) in ("missing", "corrupt") for offset in between)
                return "LOST" if blind else later.kind
        return None

    def state(self, offset: int) -> tuple[str, str | None]:
        entry = self.holder(offset)
        fate = self.lost.get(offset)
        if offset < self.history.log_start:
            return "trimmed", "log-start-offset"
        if fate == "corrupt":
            return "corrupt", "CRC"
        if fate == "missing":
            return "missing", "no-explanation"
        if offset >= self.history.high_watermark:
            return "open", "high-watermark"
        if offset >= self.stable:
            return "open", "transaction"
        if entry is None:
            return "compacted", "cleaner-checkpoint"
        if not entry.offsets:
            return "empty", None
        if entry.kind == "data":
            return "present", None
        if entry.kind == "transactional":
            outcome = str(self.outcome(entry))
            if outcome == "LOST":
                return "unknown", "marker-lost"
            return {"COMMIT": "present", "ABORT": "aborted"}[outcome], None
        return ("present" if entry.kind == "COMMIT" else "control"), None

    def records(self, start: int, end: int) -> int:
        return sum(start <= offset < end for entry in self.held for offset in entry.offsets)

    def markers(self, start: int, end: int) -> int:
        """COMMIT markers."""
        return sum(start <= entry.first < end for entry in self.held if entry.kind == "COMMIT")


def facts(history: History) -> list[BatchFact]:
    """The facts that a scan would give for these entries."""
    found: list[BatchFact] = []
    expected = 0
    for entry in history.entries:
        if entry.fate == "corrupt":
            found.append(BatchFact(expected, None, 0, -1, -1, False, False, None, "CRC", "s", entry.first, 70, -1))
        if entry.fate != "held":
            continue
        control = entry.is_marker or entry.kind == "LEADER_CHANGE"
        transactional = entry.is_marker or entry.kind == "transactional"
        kind = entry.kind if control else None
        found.append(
            BatchFact(
                entry.first,
                entry.last,
                len(entry.offsets),
                entry.producer,
                0,
                transactional,
                control,
                kind,
                "ok",
                "s",
                entry.first,
                70,
                0,
            )
        )
        expected = entry.last + 1
    return found


def derive(
    history: History, start: int = 0, *, folded: bool = False
) -> tuple[TransactionView, tuple[LedgerRange, ...]]:
    by_base = {entry.first: entry for entry in history.entries if entry.fate == "held"}
    batches = [f for f in facts(history) if (f.base_offset if f.last_offset is None else f.last_offset) >= start]
    view = derive_transactions(
        batches,
        high_watermark=history.high_watermark,
        log_start_offset=history.log_start,
        cleaner_checkpoint=history.checkpoint,
    )
    cuts = (history.log_start, history.high_watermark)
    ranges = ledger_ranges(
        fold(batches, cuts) if folded else batches,
        view,
        start_offset=start,
        log_start_offset=history.log_start,
        high_watermark=history.high_watermark,
        log_end_offset=history.end,
        rules=GapRules(history.checkpoint),
        records_from=lambda fact, cut: sum(offset >= cut for offset in by_base[fact.base_offset].offsets),
    )
    return view, tuple(ranges)


@st.composite
def histories(draw: st.DrawFn) -> History:
    entries: list[Entry] = []
    offset = 0
    steps = st.tuples(
        st.sampled_from(["transactional"] * 4 + ["data"] * 2 + ["COMMIT", "ABORT"] * 2 + ["LEADER_CHANGE"]),
        st.sampled_from(PRODUCERS),
        st.integers(1, 4),
        st.sampled_from(["held"] * 12 + ["gone", "corrupt"]),
        st.sampled_from(["whole"] * 5 + ["thinned", "emptied"]),
    )
    for kind, producer, size, fate, cleaned in draw(st.lists(steps, max_size=25)):
        size = size if kind in ("data", "transactional") else 1
        left = set(range(offset, offset + size))
        if cleaned == "thinned":
            left -= draw(st.sets(st.sampled_from(sorted(left))))
        elif cleaned == "emptied":
            left = set()
        if kind in ("COMMIT", "ABORT", "LEADER_CHANGE"):
            left = {offset}
        producer = -1 if kind == "LEADER_CHANGE" else producer
        entries.append(Entry(offset, offset + size - 1, kind, producer, fate, frozenset(left)))
        offset += size
    checkpoint = draw(st.one_of(st.none(), st.integers(0, offset), st.just(offset)))
    log_start = draw(st.one_of(st.just(0), st.integers(0, offset)))
    high_watermark = draw(st.one_of(st.just(offset), st.integers(0, offset)))
    return History(tuple(entries), checkpoint, high_watermark, log_start)


TOLD = settings(
    derandomize=True, max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.filter_too_much]
)


@TOLD
@given(histories())
def test_every_offset_has_the_state_and_the_last_stable_offset_that_the_model_says(history: History) -> None:
    model = Model(history)
    view, ranges = derive(history)
    assert view.last_stable_offset == model.stable
    check_tiling(ranges, 0, history.end)
    said = [(str(r.state), r.evidence) for r in ranges for _ in range(r.start_offset, r.end_offset)]
    assert said == [model.state(offset) for offset in range(history.end)]
    for state in {state for state, _ in said}:
        event(state)


@TOLD
@given(histories())
def test_folding_neighbours_first_changes_nothing(history: History) -> None:
    assert derive(history, folded=True) == derive(history)


@TOLD
@given(histories())
def test_every_range_counts_the_records_and_the_gaps_that_the_model_counts(history: History) -> None:
    model = Model(history)
    for each in derive(history)[1]:
        held = str(each.state) in ("present", "control", "aborted", "open", "empty", "unknown")
        records = model.records(each.start_offset, each.end_offset) if held else 0
        markers = model.markers(each.start_offset, each.end_offset) if str(each.state) == "present" else 0
        records -= markers
        assert (each.records, each.markers) == (records, markers)
        assert each.gaps == (each.offsets - records if held else 0)


@TOLD
@given(histories())
def test_transactions_are_the_runs_of_batches_up_to_a_marker_or_a_loss(history: History) -> None:
    model = Model(history)
    names = {"COMMIT": "committed", "ABORT": "aborted", "LOST": "unknown", None: "open"}
    outcomes = {e.first: names[model.outcome(e)] for e in model.transactional()}
    said = {}
    for transaction in derive(history)[0].transactions:
        for entry in model.transactional():
            mine = entry.producer == transaction.producer_id
            if mine and transaction.first_offset <= entry.last <= transaction.last_offset:
                assert entry.first not in said
                said[entry.first] = str(transaction.state)
    assert said == outcomes


@TOLD
@given(histories())
def test_ranges_are_as_long_as_they_can_be(history: History) -> None:
    view, ranges = derive(history)
    cuts = {history.log_start, history.high_watermark, view.last_stable_offset}
    for before, after in pairwise(ranges):
        assert (before.state, before.evidence) != (after.state, after.evidence) or after.start_offset in cuts


@TOLD
@given(histories(), st.data())
def test_built_from_where_an_earlier_view_stopped_it_is_the_same_as_built_from_the_start(
    history: History, data: st.DataObject
) -> None:
    ends = [i + 1 for i, entry in enumerate(history.entries) if entry.fate == "held"]
    assume(ends)
    shorter = history.entries[: data.draw(st.sampled_from(ends))]
    high_watermark = data.draw(st.integers(0, min(history.high_watermark, shorter[-1].last + 1)))
    earlier = History(shorter, history.checkpoint, high_watermark, history.log_start)
    resume = restart_offset(derive(earlier)[1])
    whole_view, whole = derive(history)
    rest_view, rest = derive(history, resume)
    assert [t for t in whole_view.transactions if t.first_offset >= resume] == list(rest_view.transactions)
    assert whole_view.last_stable_offset == rest_view.last_stable_offset
    expected = [(r.state, r.evidence) for r in whole for _ in range(max(r.start_offset, resume), r.end_offset)]
    assert [(r.state, r.evidence) for r in rest for _ in range(r.offsets)] == expected
    check_tiling(rest, resume, history.end)
    borders = [r for r in whole if r.start_offset >= resume]
    assert borders == [r for r in rest if r.start_offset >= (borders[0].start_offset if borders else history.end)]
