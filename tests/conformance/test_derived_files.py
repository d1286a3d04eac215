"""Indexes and producer snapshots hold nothing that the batches do not say: they are made again, and equal.

Producer state and transaction indexes of logs that are whole: not cleaned, not trimmed, not damaged. Offset and time
indexes, byte for byte, of logs whose broker had to make them again itself.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from logcore.logs.checks.validation import BatchVerdict
from logcore.logs.model.producers.producer_state import ProducerReplay
from logcore.logs.recovery.segment_recovery import IndexRules, recover_segment
from logcore.records.control import coordinator_epoch
from logcore.segments.side_files import producer_state, transaction_index
from logcore.segments.side_files.producer_state import ProducerEntry
from tests.conformance import ours
from tests.conformance.snapshots import SNAPSHOTS, Snapshot
from tests.conformance.snapshots import snapshot as named

if TYPE_CHECKING:
    from tests.conformance.conftest import Corpus

CLEANED = ("compaction-", "internal-topics-4.4.0/compacted", "compact-2.8.2/after", "compact-2.8.2/before2")
DAMAGED = ("recovery-damage", "recovery-fatal-4.4.0/before", "recovery-fatal-4.4.0/after", "crash-")
WHOLE = [
    snapshot
    for snapshot in SNAPSHOTS
    if not str(snapshot).startswith((*CLEANED, *DAMAGED, "tiered-")) or str(snapshot).endswith("/before1")
]


def whole_logs(corpus: Corpus, snapshot: Snapshot) -> list[ours.Log]:
    """Logs that begin at offset 0, as they began."""
    return [
        log
        for log in corpus.logs(snapshot).values()
        if log.source.log_start_offset == 0 and log.segments and log.segments[0].file.base_offset == 0
    ]


def taken(replay: ProducerReplay, batch: ours.Batch) -> transaction_index.AbortedTransaction | None:
    """Account for a batch; the entry of the transaction index that it makes, if it makes one."""
    epoch = None
    if batch.header.is_control and batch.header.producer_id >= 0:
        epoch = coordinator_epoch(batch.records[0].value)
    done = replay.take(BatchVerdict.of(batch.scanned), epoch)
    return replay.aborted(done) if done is not None and done.is_aborted else None


def state(replay: ProducerReplay, snapshot: Snapshot) -> dict[int, ProducerEntry]:
    """The replayed state, as the snapshot's broker would write it: 0.11 took a marker for data."""
    entries = replay.entries()
    if snapshot.case != "txn-0.11.0.3":
        return entries
    return {
        producer: replace(entry, last_offset=replay.last_marker(producer), offset_delta=0)
        if replay.last_marker(producer) > entry.last_offset
        else entry
        for producer, entry in entries.items()
    }


@pytest.mark.parametrize("snapshot", WHOLE, ids=str)
def test_every_snapshot_and_transaction_index_follows_from_the_batches(corpus: Corpus, snapshot: Snapshot):
    for log in whole_logs(corpus, snapshot):
        directory = Path(log.source.directory)
        written = {
            int(path.name[:20]): {entry.producer_id: entry for entry in producer_state.parse(path.read_bytes())}
            for path in sorted(directory.glob("*.snapshot"))
        }
        left = sorted(written)
        replay = ProducerReplay()
        for segment in log.segments:
            aborted = []
            for batch in segment.batches:
                while left and left[0] <= batch.header.base_offset:
                    offset = left.pop(0)
                    assert state(replay, snapshot) == written[offset], (directory.name, offset)
                entry = taken(replay, batch)
                if entry is not None:
                    aborted.append(entry)
            index = directory / segment.name.replace(".log", ".txnindex")
            listed = transaction_index.parse(index.read_bytes(), segment.file.base_offset) if index.exists() else ()
            assert aborted == list(listed), (directory.name, segment.name)
        for offset in left:
            assert state(replay, snapshot) == written[offset], (directory.name, offset)


def test_the_logs_made_again_are_many_and_hold_what_matters(corpus: Corpus):
    """So that no filter above leaves nothing to look at."""
    snapshots = entries = aborted = opened = 0
    for snapshot in WHOLE:
        for log in whole_logs(corpus, snapshot):
            directory = Path(log.source.directory)
            for path in directory.glob("*.snapshot"):
                found = producer_state.parse(path.read_bytes())
                snapshots += 1
                entries += len(found)
                opened += sum(entry.open_transaction is not None for entry in found)
            aborted += sum(path.stat().st_size // 34 for path in directory.glob("*.txnindex"))
    print(f"{snapshots} snapshots, {entries} producers, {opened} open transactions, {aborted} aborted")
    assert (snapshots, entries, opened, aborted) == (589, 1_384, 90, 315)


RECOVERED = {
    "recovery-damage-unclean-4.4.0/after": 154,
    "recovery-damage-unclean-rp-4.4.0/after": 100,
    "recovery-kill9-4.4.0/after": 16,
}
"""Snapshots behind a recovery, and how many indexes of sealed segments there are to make again."""

INTERVALS = (0, 300, 700)
"""The topics' `index.interval.bytes`."""

KEPT_AS_DAMAGED = {"d-flip-old-0", "d-idx-junk-0", "d-idx-odd-0", "d-idx-zero-0", "d-tidx-empty-0", "d-tidx-junk-0"}
"""Below the recovery point a broker's start makes nothing again: these kept what was done to them."""


@pytest.mark.parametrize("name", RECOVERED)
def test_the_indexes_a_recovery_made_are_the_ones_we_make(corpus: Corpus, name: str):
    """Of sealed segments: those of the active one go on growing afterwards."""
    made = 0
    for directory, log in corpus.logs(named(name)).items():
        if "unclean-rp" in name and directory in KEPT_AS_DAMAGED:
            continue
        fitting = set(INTERVALS)
        for segment in log.segments[:-1]:
            path, base = Path(segment.file.path), segment.file.base_offset
            written = (path.with_suffix(".index").read_bytes(), path.with_suffix(".timeindex").read_bytes())
            ours = {each: recover_segment(path.read_bytes(), base, IndexRules(each)) for each in fitting}
            fitting = {each for each, made_by in ours.items() if written == (made_by.offset_index, made_by.time_index)}
            made += 2
        assert fitting, directory
    assert made == RECOVERED[name]
