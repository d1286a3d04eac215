"""What a broker's start made of a damaged log: it kept the batches that we find good before the damage.

And where the start, or the damage it left, makes the broker answer wrongly, what the log says is expected instead.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

import pytest

from logcore.segments.filenames import is_internal_topic
from tests.conformance import oracles, ours
from tests.conformance.oracles import Consumed
from tests.conformance.snapshots import Snapshot, snapshot
from tests.conformance.test_records import APART, CONSUMER_FAILED

if TYPE_CHECKING:
    from tests.conformance.conftest import Corpus

CLEAN, UNCLEAN, UNCLEAN_RP = (f"recovery-damage-{how}-4.4.0" for how in ("clean", "unclean", "unclean-rp"))

KEPT_LESS = {
    (CLEAN, "d-cut-half-0"): "the log's end was read off an index entry",
    (UNCLEAN, "d-flip-base-0"): "an offset that does not rise empties the whole segment",
    (UNCLEAN_RP, "d-flip-base-0"): "an offset that does not rise empties the whole segment",
}
NO_LONGER_ASKED = {"d-meta-del-0": "without its partition.metadata the log was renamed to a stray"}


def before_damage(log: ours.Log) -> list[Consumed]:
    """Data records before the first bytes that cannot be trusted."""
    good: list[ours.Batch] = []
    for segment in log.segments:
        end = segment.stretches[0].position if segment.stretches else segment.accounting.file_size
        good += [batch for batch in segment.batches if batch.scanned.position < end]
        if segment.stretches:
            break
    return ours.stored(good)


@pytest.mark.parametrize("case", [CLEAN, UNCLEAN, UNCLEAN_RP])
def test_a_broker_s_start_kept_the_good_records_before_the_damage(corpus: Corpus, case: str):
    consumed = corpus.consumed(snapshot(f"{case}/after"), "read_uncommitted")
    compared = 0
    for name, log in corpus.logs(snapshot(f"{case}/before")).items():
        apart, _ = APART.get((f"{case}/after", name), ((), ""))
        if "read_uncommitted" in apart or name in NO_LONGER_ASKED or is_internal_topic(name):
            continue
        kept = consumed[name]
        good = before_damage(log)
        if (case, name) in KEPT_LESS:
            assert kept == good[: len(kept)], name
            assert len(kept) < len(good), name
        else:
            assert kept == good, name
        compared += 1
    assert compared == {CLEAN: 21, UNCLEAN: 34, UNCLEAN_RP: 28}[case]


@pytest.mark.parametrize(("place", "name"), [key for key, (_, why) in APART.items() if why is CONSUMER_FAILED])
def test_damage_that_a_broker_left_in_a_log_is_found_there_again(corpus: Corpus, place: str, name: str):
    after = corpus.logs(snapshot(place))[name]
    before = corpus.logs(snapshot(place.replace("/after", "/before")))[name]
    assert ours.stored(after.batches()) == ours.stored(before.batches())
    if name != "d-seg-empty-0":
        assert [finding for finding in ours.findings(after) if finding[0] == "corrupt-bytes"] == ours.findings(before)
        assert len(ours.findings(before)) == 1


def test_a_junk_offset_index_hides_no_record_from_us(corpus: Corpus):
    """The broker's log end fell, and its consumers began too late; the records are all there."""
    name = "d-idx-junk-0"
    log = corpus.logs(snapshot(f"{CLEAN}/after"))[name]
    assert ours.stored(log.batches()) == corpus.consumed(snapshot(f"{CLEAN}/base"), "read_uncommitted")[name]
    assert len(corpus.consumed(snapshot(f"{CLEAN}/after"), "read_uncommitted")[name]) == 27
    assert len(ours.stored(log.batches())) == 43


@pytest.mark.parametrize(
    ("case", "name"), [(CLEAN, "d-txnidx-del-0"), (UNCLEAN_RP, "d-txnidx-del-0"), (UNCLEAN_RP, "d-idx-junk-0")]
)
def test_without_transaction_index_the_aborted_are_still_left_out(corpus: Corpus, case: str, name: str):
    """The broker served records of aborted transactions. Which those are is read from the indexes before the damage."""
    after = snapshot(f"{case}/after")
    log = corpus.logs(after)[name]
    expected = without_aborted(corpus, after, name, corpus.consumed(after, "read_uncommitted")[name])
    visible = log.visible("read_committed")
    found = [r for r in ours.stored(log.batches()) if any(start <= r.offset < end for start, end in visible)]
    assert found == expected
    served = {record.offset for record in corpus.consumed(after, "read_committed")[name]}
    assert served > {record.offset for record in found}


def without_aborted(corpus: Corpus, after: Snapshot, name: str, records: list[Consumed]) -> list[Consumed]:
    """Those below the last stable offset that the transaction indexes from before the damage do not call aborted."""
    aborted = []
    for path in sorted((corpus.case(after) / "base" / name).glob("*.txnindex")):
        aborted += [entry[1:4] for entry in struct.iter_unpack(">hqqqq", path.read_bytes())]
    log = corpus.logs(after)[name]
    producers = {record.offset: batch.header.producer_id for batch in log.batches() for record in batch.records}
    end = log.transactions().last_stable_offset
    return [
        record
        for record in records
        if record.offset < end
        and not any(p == producers[record.offset] and first <= record.offset <= last for p, first, last in aborted)
    ]


@pytest.mark.parametrize("what", ["flip-len", "flip-magic"])
def test_damage_that_a_clean_flag_hides_is_found_before_and_after_the_start(corpus: Corpus, what: str):
    before, after = snapshot(f"recovery-fatal-4.4.0/before-{what}"), snapshot(f"recovery-fatal-4.4.0/after-{what}")
    damaged, served = corpus.logs(before)["d-x-0"], corpus.logs(after)["d-x-0"]
    assert ours.findings(damaged) == ours.findings(served)
    assert len(ours.findings(damaged)) == 1
    assert ours.stored(damaged.batches()) == ours.stored(served.batches())
    read = oracles.consumed(corpus.case(after) / "oracle" / after.name / "d-y.jsonl")
    assert ours.stored(corpus.logs(after)["d-y-0"].batches()) == read["d-y-0"]


def test_the_table_of_damage_that_keeps_a_broker_from_starting_is_whole(corpus: Corpus):
    """Kinds of damage in the case, and those of them with which the broker started and left an `after`."""
    results = json.loads((corpus.case(snapshot("recovery-fatal-4.4.0/base")) / "oracle/all/results.json").read_text())
    kinds = {entry.removeprefix("before-") for entry in results}
    assert {kind for kind in kinds if results[kind]["started"]} == {"flip-len", "flip-magic"}
    assert len(kinds) == 11


def test_a_kill_loses_nothing_that_was_written(corpus: Corpus):
    """What lay in the files when the broker was killed is what consumers got after it had recovered."""
    logs = corpus.logs(snapshot("recovery-kill9-4.4.0/before"))
    consumed = corpus.consumed(snapshot("recovery-kill9-4.4.0/after"), "read_uncommitted")
    assert len(consumed) == 6
    for name, records in consumed.items():
        assert ours.stored(logs[name].batches()) == records, name
