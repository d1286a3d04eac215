"""Two accounts of the same history that share no code: outcomes below a high watermark, and a broker's replay, whose
aborted transactions are the entries of its transaction index."""

from dataclasses import dataclass, replace

from hypothesis import event, given, settings

from logcore.logs.model.producers.producer_state import ProducerReplay, ongoing
from logcore.logs.model.transactions import Ongoing, TransactionState
from tests.property.logs.test_transactions_and_ledger import Entry, History, derive, histories
from tests.sampling import examples

TOLD = settings(derandomize=True, max_examples=examples(300), deadline=None)


@dataclass(frozen=True)
class Batch:
    """An entry as the replay sees it."""

    entry: Entry

    @property
    def base_offset(self) -> int:
        return self.entry.first

    @property
    def last_offset(self) -> int:
        return self.entry.last

    @property
    def producer_id(self) -> int:
        return self.entry.producer

    @property
    def record_count(self) -> int:
        return len(self.entry.offsets)

    @property
    def is_transactional(self) -> bool:
        return self.entry.is_marker or self.entry.kind == "transactional"

    @property
    def is_control(self) -> bool:
        return self.entry.is_marker or self.entry.kind == "LEADER_CHANGE"

    @property
    def control_type(self) -> str | None:
        return self.entry.kind if self.is_control else None

    producer_epoch = 0
    base_sequence = 0
    max_timestamp = 1000


def whole(history: History) -> History:
    """The history with nothing lost and everything committed."""
    entries = tuple(replace(entry, fate="held") for entry in history.entries)
    return History(entries, None, history.end, 0)


@TOLD
@given(histories())
def test_what_a_broker_indexes_as_aborted_is_what_the_markers_say(history: History) -> None:
    history = whole(history)
    replay = ProducerReplay()
    indexed = []
    for number, entry in enumerate(history.entries, start=1):
        completed = replay.take(Batch(entry))
        if completed is None or not completed.is_aborted:
            continue
        aborted = replay.aborted(completed)
        indexed.append((aborted.producer_id, aborted.first_offset, aborted.last_offset))
        then, _ = derive(whole(History(history.entries[:number], None, 0, 0)))
        assert aborted.last_stable_offset == then.last_stable_offset
        event("the last stable offset is another producer's" if then.last_stable_offset <= entry.first else "none open")
    view, _ = derive(history)
    aborts = [t for t in view.transactions if t.state is TransactionState.ABORTED]
    assert sorted(indexed) == sorted((t.producer_id, t.first_offset, t.marker_offset) for t in aborts)


@TOLD
@given(histories())
def test_what_a_snapshot_says_is_in_progress_is_what_is_open(history: History) -> None:
    history = whole(history)
    replay = ProducerReplay()
    for entry in history.entries:
        replay.take(Batch(entry))
    view, _ = derive(history)
    opened = [
        Ongoing(t.producer_id, t.producer_epoch, t.first_offset, t.last_offset)
        for t in view.transactions
        if t.state is TransactionState.OPEN
    ]
    outside = {finding.start_offset for finding in view.findings}  # a broker takes such a batch for the last one
    said = ongoing(replay.entries().values(), history.end)
    assert [(each.producer_id, each.first_offset) for each in said] == [
        (each.producer_id, each.first_offset) for each in opened
    ]
    if not outside:
        assert list(said) == opened
