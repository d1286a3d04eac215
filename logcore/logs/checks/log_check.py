"""Rules about a log as a whole: its segments against each other, and the files beside them against the batches.

    rule                        finds
    missing-offsets             offsets gone between two batches, and nothing shows that the log is cleaned
    leader-epoch-regression     a segment that begins in a lower epoch than the end of the one before
    leader-epoch-differs        a batch whose epoch is not the one in leader-epoch-checkpoint
    leader-epochs-unproven      no leader-epoch-checkpoint to compare with, or one that begins above the log
                                start; no checksum covers the epoch
    producer-sequence           a producer's batch that does not follow its last one (a gap, or a duplicate)
    producer-epoch-regression   a producer's batch of a lower epoch than it had
    broken-snapshot             a producer snapshot that cannot be used
    snapshot-differs            a producer snapshot that differs from the batches before it; or there is none, and the
                                broker stopped cleanly: its start forgets the producers
    time-index-differs          no time index after a clean stop; see also `logcore.logs.checks.index_check`
    checkpoint-beyond-log-end   recovery point, snapshot, epoch or cleaner checkpoint above the log end
    high-watermark-beyond-…     committed offsets above the log end
    transaction-index-differs   see `logcore.logs.checks.index_check`

Everything beside the log is derived from it, and is compared only where the log proves it. If the log does not begin at
offset 0, the producer snapshot at its first segment represents what came before. Without one, and after damage, a gap
or cleaned batches, sequences and snapshots cannot be checked, and the transaction index only in part.

A cut exactly between two batches leaves no trace in a segment. Only files that name offsets above the end show it.
Belongs here: the walk over a whole log. `logcore.logs.checks.validation` checks the bytes and batches of one segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from logcore.errors import LogError
from logcore.logs.checks.beyond_log_end import beyond_log_end, cut_ends, stated_ends
from logcore.logs.checks.index_check import Read, compare_transactions, transaction_index_of
from logcore.logs.model.findings import CappedFindings, Finding, found
from logcore.logs.model.gaps import NO_EXPLANATION, GapRules, is_cleaned
from logcore.logs.model.producers.producer_state import ProducerBatch, ProducerReplay
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.records.control import ControlType
from logcore.segments.filenames import (
    LEADER_EPOCH_FILE,
    MAX_OFFSET,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    is_coordinator_topic,
)
from logcore.segments.scanning.scan import Stretch
from logcore.segments.side_files.producer_state import ProducerEntry, parse
from logcore.segments.side_files.transaction_index import AbortedTransaction

_MAX_SEQUENCE = 2**31 - 1


class CheckedBatch(ProducerBatch, Protocol):
    """The fields of a good batch that are checked; `logcore.logs.checks.validation.BatchVerdict` has them.

    Neighbours without a producer, without gaps and of one leader epoch may be joined.
    """

    @property
    def position(self) -> int:
        """Of the batch in its segment."""

    @property
    def leader_epoch(self) -> int:
        """As the batch states it."""

    @property
    def delete_horizon_ms(self) -> int | None:
        """As the batch states it; None without one."""


def check_log(
    log: SourceLog,
    segments: Iterable[tuple[SegmentFile, Iterable[CheckedBatch | Stretch]]],
    read: Read,
    *,
    rules: GapRules | None = None,
) -> Iterator[Finding]:
    """Check a log as a whole.

    Args:
        log: The log.
        segments: In order, each with its good batches and bad stretches in order.
        read: Returns the bytes of a file beside the log, by its path.
        rules: What explains gaps; by default the log's cleaner checkpoint. Cleaned batches (fewer records than offsets,
            a delete horizon) explain every gap below them.

    Yields:
        Findings. Their files are paths as in the log.
    """
    check = _LogCheck(log, read, GapRules(log.cleaner_checkpoint) if rules is None else rules)
    for segment, items in segments:
        check.begin(segment)
        for item in items:
            if isinstance(item, Stretch):
                check.take_stretch(item)
            else:
                check.take(item)
        check.end_segment()
        yield from check.take_findings()
    check.finish()
    yield from check.take_findings()


class _LogCheck:
    def __init__(self, log: SourceLog, read: Read, rules: GapRules) -> None:
        self._log, self._read, self._rules = log, read, rules
        self._checks_sequences = not is_coordinator_topic(log.topic_partition.topic)
        self._findings = CappedFindings()
        self._segment: SegmentFile | None = None
        self._expected: int | None = None
        self._at_start = False
        """No batch of the segment was read yet."""
        self._is_damaged = False
        self._exact = True
        """All of the log up to here was seen, and nothing of it was cleaned away."""
        self._exact_below = MAX_OFFSET
        self._epoch = -1
        self._epochs = log.leader_epochs
        self._epoch_at = -1
        self._is_without_epoch = False
        self._mismatch: tuple[int, int] | None = None
        self._snapshots = list(log.snapshots)
        self._replay = ProducerReplay()
        self._indexed: dict[int, AbortedTransaction] | None = None
        self._derived: dict[int, AbortedTransaction] = {}
        self._markers: dict[int, int] = {}

    def take_findings(self) -> list[Finding]:
        """The findings since the last call."""
        said, self._findings.kept = self._findings.kept, []
        return said

    def begin(self, segment: SegmentFile) -> None:
        if self._segment is None:
            self._expected = segment.base_offset
            self._start_from(segment.base_offset)
        self._segment, self._at_start = segment, True
        has_offset_index = segment.side_file(OFFSET_INDEX_SUFFIX) is not None  # else the segment would be recovered
        is_opened = self._epochs and self._log.is_clean and not self._log.named_files and has_offset_index
        if is_opened and segment.size and segment.side_file(TIME_INDEX_SUFFIX) is None:
            message = "the segment has no time index; the start after a clean stop makes an empty one, and takes the "
            message += "file's mtime as the segment's age"
            self._say("time-index-differs", message, file=segment.path, start_offset=segment.base_offset)
        self._indexed, wrong = transaction_index_of(segment, self._read)
        self._findings.kept += wrong
        self._derived, self._markers = {}, {}

    def _start_from(self, base_offset: int) -> None:
        """The state at the beginning of the log: empty at offset 0, else that of the snapshot there."""
        if base_offset == 0:
            return
        entries = None
        while self._snapshots and self._snapshots[0][0] <= base_offset:
            offset, path = self._snapshots.pop(0)
            entries = self._snapshot(path) if offset == base_offset else None
        if entries is None:
            self._doubt(base_offset)
        else:
            self._replay = ProducerReplay(entries)

    def take_stretch(self, stretch: Stretch) -> None:
        if stretch.tail:
            return  # a write in progress
        self._is_damaged = True
        self._doubt(stretch.offset)

    def take(self, batch: CheckedBatch) -> None:
        base, last = batch.base_offset, batch.last_offset
        expected = base if self._expected is None else self._expected
        if base > expected:
            self._take_gap(expected, base, batch.position)
        if is_cleaned(batch.record_count, base, last, batch.delete_horizon_ms):
            self._doubt(base)
        while self._snapshots and self._snapshots[0][0] <= base:
            self._compare_snapshot(*self._snapshots.pop(0), at=expected)
        self._check_leader_epoch(batch)
        if batch.producer_id >= 0:
            self._take_producer(batch)
        self._expected = last + 1
        self._at_start = self._is_damaged = False

    def end_segment(self) -> None:
        segment = self._segment
        if segment is None:
            return
        if self._at_start and not self._is_damaged and segment.base_offset > (self._expected or 0):
            # No batch in it: an empty segment begins at the end of the log.
            self._take_gap(self._expected or 0, segment.base_offset, 0)
            self._expected = segment.base_offset
        if self._indexed is not None:
            self._findings.kept += compare_transactions(
                segment, self._indexed, self._derived, self._markers, exact_below=self._exact_below
            )

    def finish(self) -> None:
        """Check what only the end of the log shows."""
        if self._epoch >= 0 and not self._epochs and not self._log.named_files:
            message = "no leader-epoch-checkpoint to compare with, and no checksum covers a batch's leader epoch"
            self._say("leader-epochs-unproven", message, file=self._log.directory)
        # Where all records were deleted, a broker keeps no snapshot.
        begins = self._log.log_start_offset
        ours = [entry for entry in self._replay.entries().values() if entry.last_offset >= begins]
        if ours and self._log.is_clean and not (self._log.snapshots or self._log.named_files):
            pending = sum(entry.open_transaction is not None for entry in ours)
            message = f"there is no producer snapshot: the start after a clean stop forgets {len(ours)} producers, "
            message += f"{pending} of them in a transaction"
            self._say("snapshot-differs", message, file=self._log.directory)
        if self._expected is not None and not self._is_damaged:
            self._check_ends(self._expected)
        for _, path in self._snapshots:
            self._snapshot(path)
        for rule, count in self._findings.left_out().items():
            more = f"{self._log.topic_partition}: and {count} more of these"
            self._findings.kept.append(found(rule, more, file=self._log.directory))

    def _take_gap(self, start: int, end: int, position: int) -> None:
        self._doubt(start)
        if not self._log.named_files:
            start = max(start, self._log.log_start_offset)  # brokers and the ledger begin there
        why = self._rules.loss(start, end) if start < end else None
        if self._segment is None or self._is_damaged or why != NO_EXPLANATION:
            return  # explained, or reported already by the check of the bytes
        what = f"no batch has the {end - start} offsets from {start} on, and nothing explains it"
        if self._log.cleaner_checkpoint is None:
            what += " (in a compacted topic this is ordinary)"
        self._say(
            "missing-offsets", what, file=self._segment.path, position=position, start_offset=start, end_offset=end
        )

    def _doubt(self, offset: int) -> None:
        if self._exact:
            self._exact, self._exact_below = False, offset

    def _check_leader_epoch(self, batch: CheckedBatch) -> None:
        epoch = batch.leader_epoch
        if epoch < 0:
            return
        if self._at_start and epoch < self._epoch:
            message = f"leader epoch {epoch} after a segment that ends in epoch {self._epoch}"
            self._say_of("leader-epoch-regression", message, batch)
        self._epoch = epoch
        following = self._epoch_at + 1
        while following < len(self._epochs) and self._epochs[following].start_offset <= batch.base_offset:
            self._epoch_at, following = following, following + 1
        if self._epoch_at < 0:
            self._say_without_epoch(batch)
            return
        stated = self._epochs[self._epoch_at].epoch
        if stated == epoch:
            self._mismatch = None
        elif self._mismatch != (stated, epoch):
            self._mismatch = (stated, epoch)
            message = f"a batch of leader epoch {epoch} where leader-epoch-checkpoint has epoch {stated}"
            self._say_of("leader-epoch-differs", message, batch)

    def _say_without_epoch(self, batch: CheckedBatch) -> None:
        """A broker removes epochs together with the offsets of deleteRecords, and writes the new log start later."""
        begins = self._log.log_start_offset if self._log.lost_start is None else self._log.lost_start
        if self._is_without_epoch or not self._epochs or batch.base_offset < begins:
            return
        self._is_without_epoch = True
        message = (
            f"leader-epoch-checkpoint begins at offset {self._epochs[0].start_offset}, and the log at "
            f"{self._log.log_start_offset}: the leader epochs of the batches between cannot be compared"
        )
        path = f"{self._log.directory}/{LEADER_EPOCH_FILE}"
        self._say("leader-epochs-unproven", message, file=path, start_offset=batch.base_offset)

    def _take_producer(self, batch: CheckedBatch) -> None:
        producer = batch.producer_id
        before = self._replay.epoch_of(producer)
        if before is not None and batch.producer_epoch < before:
            message = f"producer {producer} wrote with epoch {batch.producer_epoch} after epoch {before}"
            self._say_of("producer-epoch-regression", message, batch)
        if not batch.is_control:
            self._check_sequence(batch)
        completed = self._replay.take(batch)
        if batch.is_control and batch.control_type == ControlType.ABORT:
            self._markers[batch.base_offset] = producer
            if completed is not None:
                self._derived[batch.base_offset] = self._replay.aborted(completed)

    def _check_sequence(self, batch: CheckedBatch) -> None:
        before = self._replay.last_data(batch.producer_id)
        if (
            not self._checks_sequences
            or not self._exact
            or before is None
            or batch.base_sequence < 0
            or before[0] != batch.producer_epoch
        ):
            return
        expected = (before[1] + 1) & _MAX_SEQUENCE
        if batch.base_sequence != expected:
            ahead = (batch.base_sequence - expected) & _MAX_SEQUENCE
            what = "a gap" if ahead < 2**30 else "written before"
            sequence, producer = batch.base_sequence, batch.producer_id
            message = f"producer {producer} continues at sequence {sequence}, expected {expected}: {what}"
            self._say_of("producer-sequence", message, batch)

    def _snapshot(self, path: str) -> tuple[ProducerEntry, ...] | None:
        try:
            return parse(self._read(path))
        except LogError as error:
            self._say("broken-snapshot", error.message, file=path, position=error.position)
            return None

    def _compare_snapshot(self, offset: int, path: str, at: int) -> None:
        """Compare a snapshot for `offset`; the next offset of the log's batches is `at`."""
        entries = self._snapshot(path)
        if entries is None or not self._exact or at > offset:
            return
        ours = self._replay.entries()
        wrong = []
        for entry in entries:
            difference = self._differing(entry, ours.pop(entry.producer_id, None))
            if difference is not None:
                wrong.append(f"of producer {entry.producer_id} {difference}")
        # A broker forgets producers that were silent for a long time, but never one with an open transaction.
        wrong += [
            f"it lacks producer {entry.producer_id}, whose transaction is open since {entry.current_txn_first_offset}"
            for entry in ours.values()
            if entry.open_transaction is not None
        ]
        if wrong:
            message = f"{len(wrong)} producers differ from the batches below offset {offset}: {wrong[0]}"
            self._say("snapshot-differs", message, file=path, start_offset=offset)

    def _differing(self, entry: ProducerEntry, ours: ProducerEntry | None) -> str | None:
        if ours is None:
            return "there is no batch"
        if entry.last_offset == self._replay.last_marker(entry.producer_id):
            ours = replace(ours, last_offset=entry.last_offset, offset_delta=0)  # as brokers of 0.11 did
        if entry.timestamp == self._replay.last_data_timestamp(entry.producer_id):
            ours = replace(ours, timestamp=entry.timestamp)  # as brokers of 1.0 did
        names = [
            "producer_epoch",
            "last_sequence",
            "last_offset",
            "offset_delta",
            "timestamp",
            "current_txn_first_offset",
        ]
        if self._replay.knows_coordinator_epoch(entry.producer_id):
            names.append("coordinator_epoch")
        for name in names:
            theirs, mine = getattr(entry, name), getattr(ours, name)
            if theirs != mine:
                return f"it has {name.replace('_', ' ')} {theirs}, the batches {mine}"
        return None

    def _check_ends(self, log_end: int) -> None:
        log = self._log
        while self._snapshots and self._snapshots[0][0] <= log_end:
            self._compare_snapshot(*self._snapshots.pop(0), at=log_end)
        if log.named_files:
            return
        for finding in cut_ends(stated_ends(log), log_end):
            self._findings.add(finding)
        # KRaft's metadata log may end below its latest snapshot. Then a broker drops it and continues at the snapshot.
        log_end = max(log_end, log.log_start_offset)  # a broker drops a log that ends below its start, and begins there
        if log.high_watermark is not None and log.high_watermark > log_end and not log.is_metadata:
            self._say(
                "high-watermark-beyond-log-end",
                beyond_log_end(log, log_end, log.high_watermark),
                file=log.directory,
                start_offset=log_end,
                end_offset=log.high_watermark,
            )

    def _say_of(self, rule: str, message: str, batch: CheckedBatch) -> None:
        file = None if self._segment is None else self._segment.path
        self._say(
            rule,
            message,
            file=file,
            position=batch.position,
            start_offset=batch.base_offset,
            end_offset=batch.last_offset + 1,
        )

    def _say(
        self,
        rule: str,
        message: str,
        *,
        file: str | None = None,
        position: int | None = None,
        start_offset: int | None = None,
        end_offset: int | None = None,
    ) -> None:
        self._findings.add(
            found(rule, message, file=file, position=position, start_offset=start_offset, end_offset=end_offset)
        )
