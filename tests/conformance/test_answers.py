"""What brokers answered to the Admin client about these very files is what we say of them.

ListOffsets by name and by timestamp at both isolation levels; the state of producers and which of them have a
transaction open; the aborted transactions that a broker's index lists.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from logcore.cli.output.command_notes import CommandNotes
from logcore.logs import lookup
from logcore.logs.model.transactions import TransactionState
from logcore.reading.consumer_log import lookup_log
from logcore.reading.read_options import ReadRules
from logcore.reading.visible_offsets import visible_window
from logcore.segments.filenames import DirectoryKind
from logcore.segments.side_files import producer_state, transaction_index
from tests.conformance.snapshots import BOTH, SNAPSHOTS, Snapshot
from tests.conformance.snapshots import snapshot as named
from tests.conformance.test_records import APART

if TYPE_CHECKING:
    from tests.conformance.conftest import Corpus

NAMES = {
    "earliest": lookup.EARLIEST,
    "latest": lookup.LATEST,
    "max_timestamp": lookup.MAX_TIMESTAMP,
}
DAY_MS = 86_400_000
"""`producer.id.expiration.ms`: a broker that loads a log forgets producers that were silent for longer."""

JUNK_TIME_INDEX = {(f"recovery-damage-{how}-4.4.0/after", "d-tidx-junk-0") for how in ("clean", "unclean-rp")}
"""The broker answered from a time index of random bytes. We do not use the entries of a broker's index."""

COMPACTED = ("compaction-", "internal-topics-4.4.0/compacted")

ASKED = [snapshot for snapshot in SNAPSHOTS if snapshot.era == "modern" and snapshot.consumed == BOTH]


@pytest.mark.long
@pytest.mark.parametrize("snapshot", ASKED, ids=str)
def test_every_answer_to_list_offsets_is_what_we_say(corpus: Corpus, snapshot: Snapshot):
    answers: dict[str, dict[str, Any]] = json.loads(corpus.oracle(snapshot, "offsets.json").read_text())
    logs = corpus.logs(snapshot)
    compared = 0
    for isolation_level, of_logs in answers.items():
        for name, of_log in of_logs.items():
            if (str(snapshot), name) in APART or (str(snapshot), name) in JUNK_TIME_INDEX:
                continue
            for asked, answer in of_log.items():
                at = NAMES[asked] if asked in NAMES else int(asked)
                rules = ReadRules(isolation_level)
                notes = CommandNotes()
                log = logs[name].source
                found = lookup.list_offsets(lookup_log(log, at, visible_window(log, rules).end, notes), at)
                place = (name, isolation_level, asked)
                assert (found.offset, found.timestamp) == (answer["offset"], answer["timestamp"]), place
                if asked == "latest" or (asked == "earliest" and not list(logs[name].batches())):
                    # of the broker that was started to be asked: a later epoch than any in the log
                    assert (found.leader_epoch or 0) <= answer["leader_epoch"], place
                else:
                    assert found.leader_epoch == answer["leader_epoch"], place
                # Where a broker left damage in a log, the answer is the broker's, and the damage is named.
                assert notes.exit_code in ((0, 2) if "recovery-damage" in str(snapshot) else (0,)), place
                compared += 1
    assert compared > 0


@pytest.mark.parametrize("snapshot", ASKED, ids=str)
def test_every_producer_a_broker_describes_is_in_the_last_snapshot(corpus: Corpus, snapshot: Snapshot):
    described: dict[str, list[dict[str, Any]]] = json.loads(corpus.oracle(snapshot, "producers.json").read_text())
    root = corpus.directory(snapshot)
    forgotten = corpus.facts(snapshot)["snapshots"][snapshot.name]["taken_ms"] - DAY_MS
    for name, producers in described.items():
        newest = max((root / name).glob("*.snapshot"), default=None)
        if newest is None:
            assert producers == [], name
            continue
        found = [
            {
                "producer_id": entry.producer_id,
                "producer_epoch": entry.producer_epoch,
                "last_sequence": entry.last_sequence,
                "last_timestamp": entry.timestamp,
                "coordinator_epoch": None if entry.coordinator_epoch < 0 else entry.coordinator_epoch,
                "current_txn_start_offset": entry.open_transaction,
            }
            for entry in producer_state.parse(newest.read_bytes())
        ]
        remembered = {producer["producer_id"] for producer in producers}
        silent = [entry for entry in found if entry["producer_id"] not in remembered]
        assert all(entry["last_timestamp"] < forgotten for entry in silent), name
        assert by_producer([entry for entry in found if entry not in silent]) == by_producer(producers), name


def by_producer(producers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(producers, key=lambda producer: producer["producer_id"])


@pytest.mark.parametrize("snapshot", ASKED, ids=str)
def test_the_transactions_a_broker_calls_open_are_those_without_a_marker(corpus: Corpus, snapshot: Snapshot):
    described: dict[str, list[dict[str, Any]]] = json.loads(corpus.oracle(snapshot, "producers.json").read_text())
    logs = corpus.logs(snapshot)
    for name, producers in described.items():
        if (str(snapshot), name) in APART:
            continue
        stated = {
            (producer["producer_id"], producer["current_txn_start_offset"])
            for producer in producers
            if producer["current_txn_start_offset"] is not None
        }
        found = {
            (transaction.producer_id, transaction.first_offset)
            for transaction in logs[name].transactions().transactions
            if transaction.state is TransactionState.OPEN
        }
        assert found == stated, name


def indexed(corpus: Corpus, snapshot: Snapshot, name: str) -> dict[tuple[int, int], int]:
    """First offset of every aborted transaction in the indexes of a log, by (producer, marker)."""
    entries = {}
    for path in sorted((corpus.directory(snapshot) / name).glob("*.txnindex")):
        for entry in transaction_index.parse(path.read_bytes(), int(path.name[:20])):
            entries[entry.producer_id, entry.last_offset] = entry.first_offset
    return entries


@pytest.mark.parametrize("snapshot", ASKED, ids=str)
def test_the_aborted_transactions_are_those_of_the_index(corpus: Corpus, snapshot: Snapshot):
    for name, log in corpus.logs(snapshot).items():
        if log.source.kind is not DirectoryKind.LIVE or (str(snapshot), name) in APART:
            continue
        found = {
            (transaction.producer_id, transaction.marker_offset): transaction.first_offset
            for transaction in log.transactions().transactions
            if transaction.state is TransactionState.ABORTED
        }
        stated = indexed(corpus, snapshot, name)
        if not str(snapshot).startswith(COMPACTED):
            assert found == stated, name
            continue
        # Cleaning takes the data of aborted transactions, and leaves the index as it was.
        assert found.keys() <= stated.keys(), name
        for (producer, marker), first in stated.items():
            left = [
                batch.header.base_offset
                for batch in log.batches()
                if batch.header.producer_id == producer and first <= batch.header.base_offset < marker
            ]
            assert found.get((producer, marker)) == (min(left) if left else None), (name, producer, marker)


DESCRIBED = ("transactions-3.9.2/logdir", "transactions-4.4.0/logdir", "recovery-kill9-4.4.0/after")


@pytest.mark.parametrize("name", DESCRIBED)
def test_the_transactions_a_coordinator_calls_ongoing_are_open_in_the_logs_it_names(corpus: Corpus, name: str):
    of = named(name)
    described = json.loads(corpus.oracle(of, "transactions.json").read_text())
    opened: dict[int, set[str]] = {}
    for log_name, log in corpus.logs(of).items():
        for transaction in log.transactions().transactions:
            if transaction.state is TransactionState.OPEN:
                opened.setdefault(transaction.producer_id, set()).add(log_name)
    ongoing = {entry["producer_id"]: set(entry["partitions"]) for entry in described if entry["state"] == "Ongoing"}
    assert opened == ongoing
    assert len(described) >= 1
