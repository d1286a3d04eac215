"""What the code under test says of a log directory. The only module here that calls it to read records and batches.

Everything else compares these values with what real tools said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from logcore.columns.engines import Engine, available, decode_segment
from logcore.columns.records_columns import RECORDS_SCHEMA
from logcore.columns.wanted import Place, Wanted
from logcore.logs.checks.validation import SegmentValidation
from logcore.logs.model.batch_facts import BatchFact, fact_of
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.logs.model.transactions import TransactionState, TransactionView
from logcore.records.batch import BatchHeader, TimestampType
from logcore.records.record import Record
from logcore.segments.filenames import MAX_OFFSET, segment_file_name
from logcore.segments.scanning.scan import Accounting, ScannedBatch, SegmentScan, Stretch
from logcore.storage.discovery import discover
from logcore.texts import java_text
from tests.conformance.oracles import Consumed
from tests.derived_transactions import derive_transactions


@dataclass(frozen=True, slots=True)
class Batch:
    """A good batch and its records, control records included."""

    scanned: ScannedBatch
    records: list[Record]

    @property
    def header(self) -> BatchHeader:
        """The batch's header."""
        return self.scanned.header


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment's file, walked over."""

    file: SegmentFile
    batches: list[Batch]
    stretches: list[Stretch]
    accounting: Accounting
    steps: list[ScannedBatch | Stretch]

    @property
    def name(self) -> str:
        """Name of the segment. Its file may still be called `.log.swap`, where the broker's start would rename it."""
        return segment_file_name(self.file.base_offset)


@dataclass(frozen=True, slots=True)
class Log:
    """One partition directory, all of its segments walked over."""

    source: SourceLog
    segments: list[Segment] = field(default_factory=list)

    @property
    def high_watermark(self) -> int:
        """What the checkpoint states; the end of the log without one."""
        return MAX_OFFSET if self.source.high_watermark is None else self.source.high_watermark

    def facts(self) -> Iterator[BatchFact]:
        """What decides transactions, in the order of the log."""
        for segment in self.segments:
            for step in segment.steps:
                yield fact_of(step, segment.name)

    def transactions(self) -> TransactionView:
        """Every transaction and the last stable offset. Gaps are taken for the cleaner's, as a consumer does."""
        return derive_transactions(self.facts(), high_watermark=self.high_watermark, compacted_by_policy=True)

    def visible(self, isolation_level: str) -> list[tuple[int, int]]:
        """Half-open ranges of the offsets that a consumer is shown, ascending, one for each batch or fewer."""
        start = self.source.log_start_offset
        end, aborted = max(self.high_watermark, start), []
        if isolation_level == "read_committed":
            view = self.transactions()
            end = min(end, view.last_stable_offset)
            aborted = [t for t in view.transactions if t.state is TransactionState.ABORTED]
        ranges: list[tuple[int, int]] = []
        for batch in self.batches():
            header = batch.header
            hidden = header.is_transactional and any(
                t.producer_id == header.producer_id and t.first_offset <= header.base_offset <= t.last_offset
                for t in aborted
            )
            first, behind = max(header.base_offset, start), min(header.last_offset + 1, end)
            if not hidden and not header.is_control and first < behind:
                ranges.append((first, behind))
        return ranges

    def batches(self) -> Iterator[Batch]:
        """Every good batch, in the order of the log."""
        for segment in self.segments:
            yield from segment.batches


def walk(path: str, base_offset: int, *, sealed: bool, next_base_offset: int | None = None) -> Segment:
    """A segment's file, walked over with the plain reader."""
    content = Path(path).read_bytes()
    read: list[Record] = []
    steps = SegmentScan(
        content,
        base_offset=base_offset,
        sealed=sealed,
        next_base_offset=next_base_offset,
        inspect=lambda _, record: read.append(record),
    )
    batches, stretches, taken = [], [], []
    for step in steps:
        taken.append(step)
        if isinstance(step, Stretch):
            stretches.append(step)
        else:
            batches.append(Batch(step, list(read)))
        read.clear()
    file = SegmentFile(base_offset, path, len(content), 0, 0)
    return Segment(file, batches, stretches, steps.accounting, taken)


def logs(directory: Path) -> dict[str, Log]:
    """Every log of a log directory by its folder's name, those waiting for deletion and strays too."""
    discovery = discover([str(directory)])
    found = {}
    for source in (*discovery.logs, *discovery.set_aside):
        log = Log(source)
        for file in source.segments:
            following = source.next_base_offset(file)
            segment = walk(file.path, file.base_offset, sealed=following is not None, next_base_offset=following)
            log.segments.append(segment)
        found[Path(source.directory).name] = log
    return found


def findings(log: Log) -> list[tuple[str, str, int | None, int | None]]:
    """(rule, segment, position, bytes) of what the pass over each segment has to say."""
    said = []
    for segment in log.segments:
        following = log.source.next_base_offset(segment.file)
        pass_over = SegmentValidation(
            Path(segment.file.path).read_bytes(),
            base_offset=segment.file.base_offset,
            sealed=following is not None,
            file=segment.name,
            next_base_offset=following,
        )
        for _ in pass_over:
            pass
        said += [(finding.rule, segment.name, finding.position, finding.nbytes) for finding in pass_over.findings]
    return said


def stored(batches: Iterable[Batch]) -> list[Consumed]:
    """Data records of batches, whatever a consumer would be shown of them."""
    return [
        Consumed(
            record.offset,
            record.timestamp,
            record.timestamp_type.kafka_name,
            record.key,
            record.value,
            tuple((java_text(name), value) for name, value in record.headers),
            None if batch.header.partition_leader_epoch < 0 else batch.header.partition_leader_epoch,
        )
        for batch in batches
        if not batch.header.is_control
        for record in batch.records
    ]


def records(log: Log, isolation_level: str, engine: Engine) -> list[Consumed]:
    """The records a consumer would be shown, out of an engine's columns."""
    if engine not in available():
        pytest.skip(f"the engine {engine} does not work on this machine")
    name = log.source.topic_partition
    wanted = Wanted(visible=tuple(log.visible(isolation_level)))
    rows: list[Consumed] = []
    for segment in log.segments:
        following = log.source.next_base_offset(segment.file)
        pieces = decode_segment(
            Path(segment.file.path).read_bytes(),
            place=Place(name.topic, name.partition, "", ""),
            base_offset=segment.file.base_offset,
            sealed=following is not None,
            next_base_offset=following,
            wanted=wanted,
            engine=engine,
        )
        stretches = []
        for piece in pieces:
            if isinstance(piece, Stretch):
                stretches.append(piece)
                continue
            assert piece.schema == RECORDS_SCHEMA
            rows += [_consumed(row) for row in piece.to_pylist()]
        assert stretches == segment.stretches
    return rows


def _consumed(row: dict) -> Consumed:
    return Consumed(
        row["offset"],
        row["timestamp_ms"],
        TimestampType(row["timestampType"]).kafka_name,
        row["key"],
        row["value"],
        tuple((header["key"], header["value"]) for header in row["headers"] or ()),
        row["leader_epoch"],
    )
