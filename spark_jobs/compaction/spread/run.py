"""What the tasks of a spread cleaning get: the run, its files, and the data of the round.

Errors of a step become results (`faults`), as for every task.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import wraps
from typing import ParamSpec, TypeVar

from logcore.columns.cleaning.offset_map import HashKey
from logcore.errors import LogError
from logcore.logs.compaction.cleaned_transactions import CleanedTransactionState
from logcore.logs.compaction.cleaning_round import ActiveProducer, CleaningRound, SourceSegment, Uncleanable
from logcore.logs.compaction.plan import PlannedGroup
from logcore.logs.model.broker_line import BrokerLine
from spark_jobs.compaction.log_cleaning import CleaningResult, DamagedPlace, Unproven, failure
from spark_jobs.lake.segments.log_directory import segment_bytes
from spark_jobs.lake.segments.log_segments import LogSegment
from spark_jobs.lake.store import storage

MOST_OFFSETS = 1 << 60
"""A plain log ends at or below it: a number has an offset and two flags."""

Given = ParamSpec("Given")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class SpreadRun:
    """What every task of a spread cleaning needs."""

    lake: str
    folder: str
    """Folder of the run's intermediate files, relative to the lake."""
    rows: int
    """Rows that a task keeps in memory at a time."""
    hash_key: HashKey
    proof_key: HashKey

    @property
    def round_file(self) -> str:
        """The file with the data of the round that all tasks need."""
        return storage.join(self.lake, f"{self.folder}/round.json")

    def facts(self, base_offset: int) -> str:
        """The facts of a segment."""
        return f"{self.folder}/facts-{base_offset:020d}"

    def keys(self, base_offset: int) -> str:
        """The hashes of a segment's keys."""
        return f"{self.folder}/keys-{base_offset:020d}"

    def newer(self, bucket: int) -> str:
        """The newer offsets that the groups need from a range of hashes."""
        return f"{self.folder}/newer-{bucket:05d}"

    @property
    def rows_folder(self) -> str:
        """The folder of what `hashed_rows` names."""
        return f"{self.folder}/rows"

    def hashed_rows(self, base_offset: int) -> str:
        """The records of a piece of a plain log, by the hashes of their keys."""
        return f"{self.rows_folder}/{base_offset:020d}"

    def newest(self, bucket: int) -> str:
        """The offsets that remain by key, from a range of hashes."""
        return f"{self.folder}/newest-{bucket:05d}"

    def proof_rows(self, base_offset: int) -> str:
        """The rows of the proof of a piece of a plain log."""
        return f"{self.folder}/proof-rows-{base_offset:020d}"

    def proof(self, side: int, number: int) -> str:
        """The hashes of a group before (0) and after (1) cleaning."""
        return f"{self.folder}/proof-{side}-{number:05d}"


@dataclass(frozen=True, slots=True)
class KeysTask:
    """A segment whose keys are hashed.

    Attributes:
        source: The segment without its bytes.
        state: Transactions before it, for the pass that builds the map.
    """

    segment: LogSegment
    source: SourceSegment
    state: CleanedTransactionState | None


@dataclass(frozen=True, slots=True)
class GroupTask:
    """A group to clean.

    Attributes:
        number: Number of the group in the round.
        segments: Segments of the group.
        state: Transactions before it.
    """

    number: int
    segments: tuple[LogSegment, ...]
    group: PlannedGroup
    state: CleanedTransactionState

    @property
    def bytes(self) -> int:
        """Bytes of the group."""
        return sum(one.size for segment in self.segments for one in segment.slices)


@dataclass(frozen=True, slots=True)
class SourcePiece:
    """Batches of a segment that one task reads.

    Attributes:
        segment: The segment.
        source: The segment without its bytes.
        start: Position of the first batch.
        end: Position after the last batch.
        base_offset: Base offset of the first batch, or of the segment.
        next_offset: Base offset of the next piece.
    """

    segment: LogSegment
    source: SourceSegment
    start: int
    end: int
    base_offset: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class SpreadPlan:
    """The tasks to run."""

    ranges: int
    """Of hashes."""
    keys: tuple[KeysTask, ...]
    groups: tuple[GroupTask, ...]
    first_dirty_offset: int
    map_was_full: bool
    """As in `CleaningResult`."""
    damage: tuple[DamagedPlace, ...]
    pieces: tuple[tuple[SourcePiece, ...], ...]
    """Of each group."""
    is_plain: bool
    """Whether the steps of `plain_steps` may clean the log. Reading the records may still show that they may not."""


@dataclass(frozen=True, slots=True)
class SpreadRound:
    """The data of the round that all tasks need. It is a file, because it grows with the log."""

    round: CleaningRound
    end_offset: int
    bits: int
    """Leading bits of a hash that select its range."""
    groups: list[list[int]]
    """Base offsets of the segments of each group."""
    pieces: list[list[int]]
    """Base offsets of the pieces of each group."""
    hidden: list[list[int]]
    """Ranges of offsets that the ledger calls aborted or unknown, of a plain log."""


def faults(work: Callable[Given, Result]) -> Callable[Given, Result | CleaningResult]:
    """Wrap a step so that its errors become results, as for every task."""

    @wraps(work)
    def step(*args: Given.args, **kwargs: Given.kwargs) -> Result | CleaningResult:
        try:
            return work(*args, **kwargs)
        except (Uncleanable, Unproven, LogError, OSError) as error:
            return failure(error)

    return step


@contextmanager
def opened_source(lake: str, segment: LogSegment, source: SourceSegment) -> Iterator[SourceSegment]:
    """The source with its bytes."""
    with segment_bytes(lake, segment) as content:
        yield replace(source, held=content)


@contextmanager
def opened_piece(lake: str, piece: SourcePiece) -> Iterator[SourceSegment]:
    """The piece as a segment of its own."""
    with segment_bytes(lake, piece.segment) as content:
        yield replace(
            piece.source,
            base_offset=piece.base_offset,
            next_base_offset=piece.next_offset,
            held=content[piece.start : piece.end],
            dirty_position=0,
        )


def write_round(run: SpreadRun, known: SpreadRound) -> None:
    """Write the data of the round for all tasks."""
    # As JSON: files of a lake are data and are never unpickled.
    producers = [[pid, each.epoch, each.last_data_offset] for pid, each in known.round.producers.items()]
    text = json.dumps(asdict(known) | {"round": asdict(known.round) | {"producers": producers}})
    storage.put(run.round_file, text.encode())


def read_round(run: SpreadRun) -> SpreadRound:
    """The data of the round."""
    stated = json.loads(storage.read(run.round_file))
    values = stated["round"]
    producers = {pid: ActiveProducer(epoch, last) for pid, epoch, last in values["producers"]}
    round = CleaningRound(**values | {"line": BrokerLine(values["line"]), "producers": producers})
    return SpreadRound(**stated | {"round": round})
