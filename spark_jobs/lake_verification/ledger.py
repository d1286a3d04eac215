"""Each log as a whole: ledger, segments, batches, transactions and rows agree.

ledger      ranges cover the log; `published` fits the frontier; records are those that validation counted
segments    follow each other without overlap; the ledger explains the gaps between them
batches     as many batches, records and bytes of each segment as validation counted
rows        each published record once; none in a range that is not published; none where rows were withdrawn

Rows against ledger through a shuffle: a task reads the offsets of a file, another one compares ranges of logs.

What moves are runs of neighbouring offsets, one block for each file and range: a row for each record would cost more
than the rest of the verification. So neither the driver nor one task has all offsets of a large log.

Offsets of rows in ``records`` against the ledger of their log: a whole log at once, or ranges of it in tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logcore.errors import LogError
from logcore.logs.model.offset_ledger import EVIDENCE_FILLED, OffsetState, check_tiling, first_hole
from logcore.logs.rules.advice import maintain_command
from logcore.ranges import Range, joined
from spark_jobs.engine.shuffle import Block, Blocks, Shuffle, ShufflingExecutor, shuffled
from spark_jobs.errors import JobError
from spark_jobs.groups import by_key
from spark_jobs.lake.delta.files.live_files import LiveFile
from spark_jobs.lake.delta.tables.snapshots import open_dataset, read_rows, scan, table_uri
from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.published.held_offsets import HeldOffsets, OffsetRuns, Offsets
from spark_jobs.lake.repair_commands import frontiers_command
from spark_jobs.lake.segments.ledger_ranges import (
    NOT_ARCHIVED,
    batches_within,
    is_control,
    offsets_in_batch,
    unarchived,
    with_published,
)
from spark_jobs.lake.store import storage
from spark_jobs.lake_verification.files import offsets_in, offsets_of
from spark_jobs.lake_verification.state import StateTables, only, way_out
from spark_jobs.lake_verification.verified_thing import (
    LISTED,
    DataUnreadable,
    Thing,
    ThingCounts,
    ThingResult,
    finding,
    identity_of,
    readable,
    stored_as,
)
from spark_jobs.placed_finding import PlacedFinding
from spark_jobs.reads import Reads

Spans = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class ExpectedOffsets:
    """Where a log has rows, as its ledger says.

    Attributes:
        due: Ranges whose records are all in the table.
        withdrawn: Offsets that were deleted on purpose.
        late: Offsets that were filled below the frontier: the table may have them.
        problem: Why the ledger says something else than the frontier; None: it does not.
    """

    due: Sequence[LedgerRow]
    withdrawn: Spans
    late: Spans
    problem: str | None = None

    @classmethod
    def of(cls, lake: str, ledger: Sequence[LedgerRow], frontier: int | None) -> ExpectedOffsets:
        """Derive them from a ledger. Without a recorded frontier only the ledger says what is published."""
        ranges, problem = list(ledger), None
        try:
            if frontier is not None:
                ranges = with_published(lake, ledger, frontier)
        except ValueError as error:
            problem = str(error)
        return cls(
            [row for row in ranges if row.has_rows],
            [(row.start_offset, row.end_offset) for row in ranges if row.withdrawn],
            [
                (row.start_offset, row.end_offset)
                for row in ranges
                if row.evidence == EVIDENCE_FILLED and not row.published and row.end_offset <= (frontier or 0)
            ],
            problem,
        )

    def within(self, start: int, end: int) -> ExpectedOffsets:
        """What concerns [start, end)."""
        return ExpectedOffsets(
            [row for row in self.due if row.start_offset < end and start < row.end_offset],
            [span for span in self.withdrawn if span[0] < end and start < span[1]],
            [span for span in self.late if span[0] < end and start < span[1]],
        )

    def compare(self, rows: HeldOffsets, start: int, end: int) -> ComparedOffsets:
        """Compare with the rows of [start, end)."""
        missing: list[tuple[int, int]] = []
        counts = {}
        for row in self.due:
            low, high = max(row.start_offset, start), min(row.end_offset, end)
            if row.gaps:
                counts[row.start_offset, row.end_offset] = rows.count(low, high)
            elif low < high:
                missing += rows.without(low, high)
        again = joined(span for low, high in self.withdrawn for span in rows.within(low, high))
        allowed = joined([*((row.start_offset, row.end_offset) for row in self.due), *self.withdrawn, *self.late])
        return ComparedOffsets(rows.doubled, missing, again, rows.outside(allowed), counts)


@dataclass(frozen=True, slots=True)
class ComparedOffsets:
    """What a comparison found.

    Attributes:
        doubled: Offsets of several rows.
        missing: Offsets without a row, of ranges without gaps.
        withdrawn: Offsets that were withdrawn, with a row.
        outside: Offsets of rows that are not published.
        counts: Different offsets of rows, for each range with gaps.
    """

    doubled: Spans
    missing: Spans
    withdrawn: Spans
    outside: Spans
    counts: Mapping[tuple[int, int], int]

    @classmethod
    def joined(cls, parts: Iterable[ComparedOffsets]) -> ComparedOffsets:
        """The comparison of a log, from those of all its ranges."""
        found = list(parts)
        counts: Counter[tuple[int, int]] = Counter()
        for part in found:
            counts.update(part.counts)
        return cls(
            joined(span for part in found for span in part.doubled),
            joined(span for part in found for span in part.missing),
            joined(span for part in found for span in part.withdrawn),
            joined(span for part in found for span in part.outside),
            counts,
        )


PART_ROWS = 1 << 20
"""Rows that a task compares, or those of one file if it has more."""
_LEAST, _GREATEST = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class ComparedLog:
    """A log, what its ledger says, and the files that may have rows of it."""

    log: str
    expected: ExpectedOffsets
    files: Sequence[LiveFile]


@dataclass(frozen=True, slots=True)
class ComparedRange:
    """Offsets of a log that are compared at once."""

    log: str
    start: int
    end: int
    expected: ExpectedOffsets


@dataclass(frozen=True, slots=True)
class Cuts:
    """The ranges of a log: all offsets, in order.

    Attributes:
        bounds: First offset of each range, and the end of the last.
        parts: The part that has each range.
        places: The place of each range in its part.
    """

    bounds: Offsets
    parts: Offsets
    places: Offsets


@dataclass(frozen=True, slots=True)
class FileTask:
    """Reads the offsets of a file. Its statistics do not say which ranges it has: they may be wrong."""

    lake: str
    path: str
    number: int
    cuts: dict[str, Cuts] = field(default_factory=dict)

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return Reads("offsets", self.path)


def compare_shuffled(executor: ShufflingExecutor, lake: str, logs: Sequence[ComparedLog]) -> dict[str, ComparedOffsets]:
    """Compare the rows of logs with their ledgers; returns the result by log."""
    parts: list[list[ComparedRange]] = []
    tasks: dict[str, FileTask] = {}
    sizes: dict[str, int] = {}
    room = 0
    for each in logs:
        bounds, counts = _bounds(each.files)
        places = []
        for start, end, rows in zip(bounds, bounds[1:], counts, strict=False):
            if not parts or rows > room:
                parts.append([])
                room = PART_ROWS
            room -= rows
            places.append((len(parts) - 1, len(parts[-1])))
            parts[-1].append(ComparedRange(each.log, start, end, each.expected.within(start, end)))
        cuts = Cuts(np.array(bounds), *np.array(places).T)
        for file in each.files:
            tasks.setdefault(file.path, FileTask(lake, file.path, len(tasks))).cuts[each.log] = cuts
            sizes[file.path] = file.size
    if not parts:
        return {}
    shuffle = Shuffle(emit_offsets, list(tasks.values()), compare_ranges, parts, sizes=list(sizes.values()))
    results = zip(parts, shuffled(executor, shuffle), strict=True)
    found = by_key((pair for both in results for pair in zip(*both, strict=True)), lambda pair: pair[0].log)
    return {log: ComparedOffsets.joined(one for _, one in of_log) for log, of_log in found.items()}


def _bounds(files: Sequence[LiveFile]) -> tuple[list[int], list[int]]:
    """Cut a log where files end: the bounds of its ranges, and about how many rows lie in each range."""
    bounds, counts = [_LEAST], [0]
    reached = _LEAST
    for file in sorted(files, key=_end_of):
        rows = PART_ROWS if file.rows < 0 else file.rows
        if counts[-1] and counts[-1] + rows > PART_ROWS and bounds[-1] < reached:
            bounds.append(reached)
            counts.append(0)
        counts[-1] += rows
        reached = _end_of(file)
    return [*bounds, _GREATEST], counts


def _end_of(file: LiveFile) -> int:
    return _GREATEST if file.max_offset is None else file.max_offset + 1


def emit_offsets(task: FileTask, only: int | None) -> Iterator[Block]:
    """Send the offsets of a file to their ranges. A damaged file has none: its own verification reports it."""
    try:
        runs = offsets_in(task.lake, "records", task.path)
    except (DataUnreadable, FileNotFoundError):
        return
    for log, cuts in task.cuts.items():
        if log not in runs:
            continue
        starts, ends = runs[log].spans()
        for at, part in enumerate(cuts.parts.tolist()):
            first, end = cuts.bounds[at], cuts.bounds[at + 1]
            inside = (starts < end) & (ends > first)
            if only in (None, part) and inside.any():
                held = np.maximum(starts[inside], first), np.minimum(ends[inside], end)
                yield Block(part, task.number, np.concatenate((cuts.places[at : at + 1], *held)).tobytes())


def compare_ranges(ranges: Sequence[ComparedRange], blocks: Blocks) -> list[ComparedOffsets]:
    """Compare each of some ranges with the ledger."""
    held: Mapping[int, list[tuple[Offsets, Offsets]]] = {at: [] for at in range(len(ranges))}
    for content in blocks():
        numbers: Offsets = np.frombuffer(content, np.int64)
        middle = 1 + len(numbers) // 2
        held[int(numbers[0])].append((numbers[1:middle], numbers[middle:]))
    return [
        each.expected.compare(HeldOffsets.of_spans(held[at]), each.start, each.end) for at, each in enumerate(ranges)
    ]


_LOG = "log/"
_END = int(np.iinfo(np.int64).max)
_MOST_READ = 1000
"""Lost ranges of one range of the ledger beyond which no batch is read for its offsets."""


def logs_of(state: StateTables) -> list[str]:
    """Every log that a state table or a data file names."""
    return sorted(state.known_logs() | {log for log in _files_by_log(state) if log is not None})


def log_things(state: StateTables, logs: Iterable[str], sums: BatchSums | None) -> Iterator[Thing]:
    """Yield logs. The state must have the offsets of the files that were read."""
    for log, files in files_of(state, logs):
        ours = None if sums is None else only(sums, (segment.segment_id for segment in state.segments_of(log)))
        yield Thing(
            name=f"{_LOG}{log}",
            identity=_identity(state, log, files, sums),
            size=0,
            verify=partial(verify_log, state.of_log(log, files), log, files, ours),
        )


def files_of(state: StateTables, logs: Iterable[str]) -> Iterator[tuple[str, list[LiveFile]]]:
    """Yield logs, each with the files of ``records`` that may have rows of it."""
    of_files = _files_by_log(state)
    mixed = of_files.get(None, ())
    for log in logs:
        yield log, [*of_files.get(log, ()), *(file for file in mixed if _may_hold(state, file, log))]


def _files_by_log(state: StateTables) -> dict[str | None, list[LiveFile]]:
    """Files of ``records`` by their log; those of several logs are at None."""
    return by_key(state.tables["records"].files if "records" in state.tables else (), lambda file: file.log)


def _may_hold(state: StateTables, file: LiveFile, log: str) -> bool:
    log_id, _, partition = log.rpartition("/")
    topic = state.topic_of(log)
    return topic in (None, file.partition_values.get("topic")) and file.may_have(log_id, int(partition))


def compare_rows(executor: ShufflingExecutor, state: StateTables, things: Sequence[Thing]) -> list[Thing]:
    """Compare the rows of logs with their ledgers in tasks; returns the logs with the results."""
    if "records" not in state.tables or state.unreadable & {"offset_ledger", "segments", "records"}:
        return list(things)
    files = dict(files_of(state, (thing.name.removeprefix(_LOG) for thing in things)))
    ledgers = {log: (state.ledger.get(log, ()), state.frontiers.get(log)) for log in files}
    logs = [ComparedLog(log, ExpectedOffsets.of(state.lake, *ledgers[log]), some) for log, some in files.items()]
    found = compare_shuffled(executor, state.lake, logs)
    return [replace(thing, verify=partial(thing.verify, found.get(thing.name.removeprefix(_LOG)))) for thing in things]


def _identity(state: StateTables, log: str, files: Sequence[LiveFile], sums: BatchSums | None) -> str:
    root = table_uri(state.lake, "records")
    stored = [(file.path, stored_as(storage.join(root, file.path))) for file in files]
    ledger = [asdict(row) for row in state.ledger.get(log, ())]
    segments = [asdict(segment) for segment in state.segments_of(log)]
    validated = [[state.validations.get(s["segment_id"]), sums and sums.get(s["segment_id"])] for s in segments]
    row = asdict(state.logs[log]) if log in state.logs else None
    return identity_of(stored, ledger, segments, validated, row, state.frontiers.get(log))


BatchSums = Mapping[str, tuple[int, int, int]]
"""By segment id: the number of its good batches, of their records (with control records), and of their bytes."""
_NO_BATCHES = 0, 0, 0


def batch_sums(state: StateTables) -> BatchSums | None:
    """Sum over the table ``batches``; None if it cannot be read."""
    opened = state.opened.get("batches")
    if opened is None:
        return None
    columns = ["segment_id", "record_count", "size"]
    found: dict[str, tuple[int, int, int]] = {}
    try:
        with readable():
            dataset = open_dataset(state.lake, "batches", opened)
            for chunk in scan(dataset, columns, pc.field("verdict") == "ok"):
                sums = pa.Table.from_batches([chunk]).group_by("segment_id")
                rows = sums.aggregate([("size", "count"), ("record_count", "sum"), ("size", "sum")]).to_pylist()
                for row in rows:
                    now = row["size_count"], row["record_count_sum"] or 0, row["size_sum"] or 0
                    before = found.get(row["segment_id"], _NO_BATCHES)
                    found[row["segment_id"]] = tuple(map(sum, zip(before, now, strict=True)))  # type: ignore[assignment]
    except (DataUnreadable, FileNotFoundError):
        return None  # the verification of the table's files reports it
    return found


def verify_log(
    state: StateTables,
    log: str,
    files: Sequence[LiveFile],
    sums: BatchSums | None,
    compared: ComparedOffsets | None = None,
) -> ThingResult:
    """Compare what the tables record about one log.

    Args:
        compared: Its rows against its ledger, if tasks have compared them; None: they are compared here.
    """
    ledger = state.ledger.get(log, ())
    result = ThingResult(counts=ThingCounts(logs=1, ledger_ranges=len(ledger)))
    said = _Said(state, log)
    if {"offset_ledger", "segments"} & state.unreadable:
        return result  # already a finding, and nothing to compare with
    result.findings += _tiling(said, ledger)
    result.findings += _segments(said, ledger)
    if "validations" not in state.unreadable:
        result.findings += _validated(said, ledger, sums)
    if "transactions" in state.tables and "transactions" not in state.unreadable:
        result.findings += _transactions(said, ledger)
    if "records" in state.tables and "records" not in state.unreadable:
        result.findings += _rows(said, ledger, files, compared)
    return result


class _Said:
    """How findings name a log."""

    def __init__(self, state: StateTables, log: str) -> None:
        self.state, self.log = state, log
        self.topic = state.topic_of(log)
        self.partition = int(log.rpartition("/")[2])

    @property
    def name(self) -> str:
        return f"{self.topic or self.log.rpartition('/')[0]}-{self.partition}"

    def finding(self, rule: str, table: str, message: str, span: tuple[int, int] | None = None) -> PlacedFinding:
        place: dict[str, Any] = {} if span is None else {"start_offset": span[0], "end_offset": span[1]}
        given: dict[str, Any] = {
            "table": table,
            "log": self.log,
            "topic": self.topic,
            "partition": self.partition,
        }
        return finding(rule, f"{self.name}: {message}", **given, **place)

    def findings(
        self, rule: str, table: str, message: str, repair: str, spans: Sequence[tuple[int, int]]
    ) -> Iterator[PlacedFinding]:
        """Yield one finding per range, up to a limit; ``message`` has fields for the range.

        Without ``repair`` the advice of the rule is the right one.
        """
        for start, end in spans[:LISTED]:
            yield self.finding(rule, table, f"{message.format(start=start, end=end)} {repair}".rstrip(), (start, end))
        if len(spans) > LISTED:
            start, end = spans[LISTED][0], spans[-1][1]
            text = f"{message.format(start=start, end=end)} ({len(spans) - LISTED} further ranges)"
            yield self.finding(rule, table, f"{text} {repair}".rstrip(), (start, end))


def _tiling(said: _Said, ledger: Sequence[LedgerRow]) -> Iterator[PlacedFinding]:
    state, repair = said.state, way_out(said.state.lake, "offset_ledger")
    feeding = state.feeding.get(said.log, ())
    validated = [segment for segment in feeding if segment.segment_id in state.validations]
    end = validated[-1].next_offset if validated else 0
    if not ledger:
        if validated:
            text = f"the ledger has no range of it, but offsets up to {end} were validated. {repair}"
            yield said.finding("ledger-has-a-hole", "offset_ledger", text, (0, end))
        return
    try:
        check_tiling(ledger, 0, max(end, ledger[-1].end_offset))
    except ValueError as error:
        hole = first_hole(ledger)
        span = None if hole is None else (hole.start_offset, hole.end_offset)
        yield said.finding("ledger-has-a-hole", "offset_ledger", f"{error}. {repair}", span)
    if ledger[-1].end_offset < end:
        text = f"the ledger ends at offset {ledger[-1].end_offset}, validated segments end at {end}. {repair}"
        yield said.finding("ledger-has-a-hole", "offset_ledger", text, (ledger[-1].end_offset, end))
    if len({(row.topic, row.log_id, row.partition) for row in ledger}) > 1 or ledger[0].log != said.log:
        text = f"ranges of its ledger name different logs. {repair}"
        yield said.finding("ledger-has-a-hole", "offset_ledger", text)
    frontier = state.frontiers.get(said.log)
    with_rows = [row for row in ledger if row.published and row.state is OffsetState.PRESENT]
    if "records" not in state.tables or "records" in state.unreadable:
        return  # a finding of its own
    if frontier is None and with_rows:
        span = with_rows[0].start_offset, with_rows[-1].end_offset
        text = (
            "the ledger says that its records are published, but the table records has no frontier of it. "
            f"Run `{frontiers_command(state.lake)}`."
        )
        yield said.finding("frontier-missing", "records", text, span)
        return
    reach = frontier or 0
    if reach > max(end, ledger[-1].end_offset):
        text = f"the frontier {reach} is after the ledger's end {ledger[-1].end_offset}. {repair}"
        yield said.finding("rows-differ-from-ledger", "records", text, (ledger[-1].end_offset, reach))
    beyond = joined(
        (max(row.start_offset, reach), row.end_offset) for row in ledger if row.published and row.end_offset > reach
    )
    text = "the ledger says that offsets [{start}, {end}) are published, the frontier is " + str(reach) + "."
    for_each = repair.replace("{", "{{").replace("}", "}}")
    yield from said.findings("rows-differ-from-ledger", "offset_ledger", text, for_each, beyond)


def _segments(said: _Said, ledger: Sequence[LedgerRow]) -> Iterator[PlacedFinding]:
    """Check that segments of the log follow each other, and that the ledger explains the gaps."""
    if "segments" not in said.state.tables:
        return  # that it is lost is said
    feeding = said.state.feeding.get(said.log, ())
    for before, after in pairwise(feeding):
        if after.base_offset < before.next_offset:
            text = f"two segments hold offsets [{after.base_offset}, {before.next_offset})."
            repair = "Take the log again into a new lake, or restore the table segments from a copy."
            span = after.base_offset, before.next_offset
            yield said.finding("ledger-has-a-hole", "segments", f"{text} {repair}", span)
    repair = "Restore the tables of the lake from a backup."
    holes = joined(unarchived(feeding, ledger))
    yield from said.findings("offsets-not-archived", "segments", NOT_ARCHIVED, repair, holes)
    for segment in feeding:
        if (segment.topic, segment.partition) != (said.topic, said.partition):
            text = f"the segment {segment.segment_id} names {segment.topic}-{segment.partition}."
            yield said.finding("ledger-has-a-hole", "segments", text, (segment.base_offset, segment.next_offset))


def _validated(said: _Said, ledger: Sequence[LedgerRow], sums: BatchSums | None) -> Iterator[PlacedFinding]:
    """Check that every segment is validated and has its batches, and that the ledger counts their records."""
    state = said.state
    end = ledger[-1].end_offset if ledger else 0
    records = 0
    is_whole = True
    for segment in state.feeding.get(said.log, ()):
        span = segment.base_offset, segment.next_offset
        validated = state.validations.get(segment.segment_id)
        if validated is None:
            is_whole = False
            if segment.next_offset <= end:
                text = f"the segment of offsets [{span[0]}, {span[1]}) has no row in the table validations."
                repair = way_out(said.state.lake, "validations")
                yield said.finding("ledger-has-a-hole", "validations", f"{text} {repair}", span)
            else:
                text = (
                    f"the segment of offsets [{span[0]}, {span[1]}) was ingested and not validated yet: a run was "
                    "interrupted. The next `loglake run` continues there."
                )
                yield said.finding("not-provable", "validations", text, span)
            continue
        counted = validated["batches"], validated["records"] + validated["control_records"], validated["valid_bytes"]
        found = counted if sums is None else sums.get(segment.segment_id, _NO_BATCHES)
        if counted != found:
            text = (
                f"the table batches has {found[0]} batches with {found[1]} records and {found[2]} bytes of the segment "
                f"of offsets [{span[0]}, {span[1]}), validation counted {counted[0]}, {counted[1]} and {counted[2]}."
            )
            yield said.finding(
                "rows-differ-from-ledger", "batches", f"{text} {way_out(said.state.lake, 'batches')}", span
            )
        records += counted[1]
    start = state.logs[said.log].log_start_offset if said.log in state.logs else 0
    feeding = state.feeding.get(said.log, ())
    counts = sum(row.records + row.markers for row in ledger)
    # A batch that begins before the log start is in a segment, but only in part in the ledger.
    if is_whole and feeding and feeding[0].base_offset >= start and counts != records:
        text = f"the ledger counts {counts} records, validation counted {records}."
        repair = way_out(said.state.lake, "offset_ledger")
        yield said.finding("rows-differ-from-ledger", "offset_ledger", f"{text} {repair}", (0, end))


def _transactions(said: _Said, ledger: Sequence[LedgerRow]) -> Iterator[PlacedFinding]:
    end = ledger[-1].end_offset if ledger else 0
    columns = ["first_offset", "last_offset", "marker_offset", "state", "producer_id"]
    try:
        with readable():
            rows = read_rows(said.state.lake, "transactions", columns, [("log", "==", said.log)]).to_pylist()
    except (DataUnreadable, FileNotFoundError):
        return  # the verification of the table's files reports it
    for row in rows:
        first, last, marker = row["first_offset"], row["last_offset"], row["marker_offset"]
        if 0 <= first <= last < end and (marker is None or last < marker < end):
            continue
        text = (
            f"a transaction of producer {row['producer_id']} is recorded with offsets [{first}, {last + 1}) and its "
            f"marker at {marker}, but the log ends at {end}. {way_out(said.state.lake, 'transactions')}"
        )
        yield said.finding("rows-differ-from-ledger", "transactions", text, (first, last + 1))


def _lost_records(said: _Said, row: LedgerRow, rows: HeldOffsets) -> tuple[Range, ...]:
    """Offsets of records without a row; empty if the table batches does not show it.

    Of a batch with fewer records than offsets, and with rows, the archive says which offsets it has. Where it cannot be
    read, or too often, the whole batch is meant.
    """
    found: list[tuple[int, int]] = []
    with suppress(FileNotFoundError, JobError):
        for chunk in batches_within(said.state.lake, row, row.start_offset, row.end_offset):
            data = chunk.filter(pa.array(~is_control(chunk)))
            first, last, count = (
                data.column(name).to_numpy() for name in ("base_offset", "last_offset", "record_count")
            )
            lost = rows.counts(first, last + 1) < count
            for batch in data.filter(pa.array(lost)).to_pylist():
                low, high = max(batch["base_offset"], row.start_offset), min(batch["last_offset"] + 1, row.end_offset)
                if batch["record_count"] == batch["last_offset"] + 1 - batch["base_offset"]:
                    found += rows.without(low, high)
                    continue
                offsets = None
                if rows.count(low, high) and len(found) < _MOST_READ:
                    with suppress(LogError, OSError):
                        offsets = offsets_in_batch(said.state.lake, row.log, batch)
                of_batch = [(at, at + 1) for at in offsets or () if low <= at < high and not rows.count(at, at + 1)]
                found += of_batch or [(low, high)]
    return joined(found)


def _rows(
    said: _Said, ledger: Sequence[LedgerRow], files: Sequence[LiveFile], compared: ComparedOffsets | None
) -> Iterator[PlacedFinding]:
    """Compare rows of ``records`` with the published ranges."""
    state = said.state
    held = cache(lambda: _held(said, files))
    expected = ExpectedOffsets.of(state.lake, ledger, state.frontiers.get(said.log))
    if expected.problem is not None:
        yield said.finding("rows-differ-from-ledger", "offset_ledger", f"{expected.problem}.")
    found = expected.compare(held(), 0, _END) if compared is None else compared
    text = "rows of offsets [{start}, {end}) are in the table more than once."
    yield from said.findings("rows-differ-from-ledger", "records", text, "", found.doubled)
    missing = list(found.missing)
    for row in expected.due:
        span = row.start_offset, row.end_offset
        rows = found.counts.get(span, row.records) if row.gaps else row.records
        lost = _lost_records(said, row, held()) if rows < row.records else ()
        missing += lost
        if rows != row.records and not lost:
            text = f"[{row.start_offset}, {row.end_offset}) have {rows} rows, the ledger counts {row.records} records."
            yield said.finding("rows-differ-from-ledger", "records", f"offsets {text}", span)
    text = "published records of offsets [{start}, {end}) are not in the table."
    yield from said.findings("rows-differ-from-ledger", "records", text, "", joined(missing))
    text = "offsets [{start}, {end}) are recorded as withdrawn, but the table has rows of them."
    to_do = f"Delete the rows again; if they expired: `{maintain_command(said.state.lake)} --apply`."
    yield from said.findings("rows-differ-from-ledger", "records", text, to_do, found.withdrawn)
    names = "table withdrawals" if "withdrawals" in said.state.tables else "offset ledger"
    text = f"offsets [{{start}}, {{end}}) were deleted on purpose or expired, as the {names} says."
    withdrawn = joined(expected.withdrawn)
    yield from said.findings("withdrawn-rows", "records", text, "The archive still holds them.", withdrawn)
    text = "the table has rows of offsets [{start}, {end}), which are not published."
    yield from said.findings("rows-differ-from-ledger", "records", text, "", found.outside)


def _held(said: _Said, files: Sequence[LiveFile]) -> HeldOffsets:
    """The offsets of all rows of a log."""
    held: list[OffsetRuns] = []
    for file in files:
        try:
            runs = offsets_of(said.state, "records", file).get(said.log)
        except (DataUnreadable, FileNotFoundError):
            continue  # the verification of the file reports it; its rows are missing
        if runs is not None:
            held.append(runs)
    return HeldOffsets.of(held)
