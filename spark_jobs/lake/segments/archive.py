"""The archive: immutable segment files, and the table ``segments`` that records which are live.

A log's state is read from two tables: ``segments`` (archived bytes; changed by guarded commits) and ``logs`` (what was
last seen at the source). They can disagree if a run died between their commits. Then ``segments`` is right.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from logcore.logs.growth.growth import LogTail
from logcore.logs.model import readable_end
from logcore.remote.chunked.chunk_map import RegisteredObject
from logcore.segments.filenames import LOG_SUFFIX, segment_file_name
from logcore.segments.side_files.leader_epochs import EpochEntry
from logcore.texts import id_part
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Guard
from spark_jobs.lake.delta.tables.snapshots import read_rows, table_of
from spark_jobs.lake.store import storage
from spark_jobs.lake.table_specs import LOGS, SEGMENTS
from spark_jobs.reads import Reads

GENERATION_INGESTED = 0

_SEGMENT_FILE = re.compile(r"([0-9]{20}\.[0-9a-f]{32})\.[a-z]+")

RETENTION, COMPACTION = "retention", "compaction"
GIVEN_UP = "given-up"
"""Evidence of offsets after the log's end that a run with the log's end as high watermark gave up."""
CUT_BACK = "cut-back"
"""Why a segment was retired: its offsets were never valid, the source truncated them."""
FILLED = "filled"
"""Why a segment was retired: better bytes have replaced its damaged ones."""
MERGED = "merged"
"""Why a segment was retired: its bytes were joined with those of its neighbours in one file."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A row of ``segments``."""

    segment_id: str
    log: str
    topic: str
    log_id: str
    partition: int
    base_offset: int
    next_offset: int
    path: str
    start: int
    size: int
    sealed: bool
    digest: str
    modified_ms: int
    max_timestamp: int | None
    generation: int
    origin_file: str
    origin_position: int
    origin_base_offset: int
    last_batch_base_offset: int | None
    last_batch_epoch: int | None
    last_batch_crc: int | None
    last_batch_size: int | None
    last_batch_end: int | None
    retired_ms: int | None
    replaced_by: str | None
    retired_because: str | None = None
    deleted_ms: int | None = None
    etag: str | None = None
    chunk_map: bytes | None = field(default=None, repr=False)
    archived_ms: int | None = None
    archived_by: str | None = None
    """The run whose commit made the segment visible; like ``archived_ms``, that commit states it."""

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return Reads(f"{self.topic}-{self.partition}", self.path, self.start, self.start + self.size)

    @property
    def registered(self) -> RegisteredObject | None:
        """The object at its source, if its row says which one it was. A chunk map without an ETag is not used."""
        return RegisteredObject(self.etag, self.chunk_map) if self.etag else None

    @property
    def feeds(self) -> bool:
        """Whether its bytes belong to the log.

        They were ingested, and were neither cut off nor replaced by better bytes or by the same bytes in a larger file.
        Only these feed transactions, ledger and rows, also when retention or compaction retired them.
        """
        return self.generation == GENERATION_INGESTED and self.retired_because not in (CUT_BACK, FILLED, MERGED)

    @property
    def is_kept(self) -> bool:
        """Whether its file must exist: it was not deleted or cut back, and its source may not delete it."""
        if self.deleted_ms is not None:
            return False
        return self.retired_ms is None or not (self.lies_at_source or self.retired_because == CUT_BACK)

    def local_path(self, lake: str) -> str:
        """Return the path of its bytes: in the archive, or at the source if they were registered in place."""
        return self.path if self.lies_at_source else storage.join(lake, self.path)

    @property
    def lies_at_source(self) -> bool:
        """Whether it was registered in place: its bytes belong to the source, and are never changed here."""
        return storage.is_absolute(self.path)


@dataclass(frozen=True, slots=True)
class Validation:
    """What validation counted in a segment."""

    batches: int
    records: int
    quarantined_bytes: int


def reads_of(segments: Sequence[Segment]) -> Reads:
    """What a task of all these segments of a log reads."""
    first, last = segments[0], segments[-1]
    return Reads(f"{first.topic}-{first.partition}", None, first.base_offset, last.next_offset)


@dataclass(frozen=True, slots=True)
class LogRow:
    """A row of ``logs``."""

    log: str
    topic: str
    log_id: str
    partition: int
    incarnation: int
    topic_id: str | None
    cluster: str | None
    source: str
    next_offset: int
    log_start_offset: int
    source_log_start_offset: int
    high_watermark: int | None
    leader_epochs: str
    cleaner_checkpoint: int | None
    gaps: str
    as_of_ms: int
    stopped: str | None
    stopped_because: str | None
    stopped_file: str | None

    @property
    def topic_partition(self) -> str:
        """Kafka's directory name."""
        return f"{self.topic}-{self.partition}"

    @property
    def source_end_offset(self) -> int:
        """Where the log ends. A broker drops a log that ends below its start, and begins there."""
        return max(self.next_offset, self.source_log_start_offset)

    @property
    def gap_evidence(self) -> tuple[tuple[int, int, str], ...]:
        """(start, end, why) of offsets that were deleted before they could be ingested."""
        return tuple((start, end, why) for start, end, why in json.loads(self.gaps))

    @property
    def epochs(self) -> tuple[EpochEntry, ...]:
        """The leader epochs of the log as they were last seen at its source."""
        return tuple(EpochEntry(*entry) for entry in json.loads(self.leader_epochs))

    def without_given_up(self) -> LogRow:
        """The row, without a high watermark above the log's end up to which an earlier run gave the offsets up."""
        mark = self.high_watermark
        is_given = mark is not None and any(
            why == GIVEN_UP and start <= self.next_offset < mark <= end for start, end, why in self.gap_evidence
        )
        return replace(self, high_watermark=None) if is_given else self

    def publish_limit(self) -> int:
        """The stated high watermark, which may be beyond the log end; the log end if none is known."""
        return self.next_offset if self.high_watermark is None else self.high_watermark

    def readable_high_watermark(self) -> int:
        """The effective high watermark: at most the log end, which also replaces an unknown one."""
        return readable_end.high_watermark(self.high_watermark, log_end_offset=self.next_offset)


def log_key(log_id: str, partition: int) -> str:
    """Return the key of a log, used everywhere in the lake."""
    return f"{log_id}/{partition}"


def new_log_id(topic: str, topic_id: str | None, cluster: str | None, incarnation: int = 0) -> str:
    """Return ``<topic id>.<incarnation>``, or ``<topic>@<cluster>.<incarnation>`` for a topic without an id.

    No topic has an ``@``, so ids of the two kinds are never equal.
    """
    return f"{topic_id}.{incarnation}" if topic_id else f"{topic}@{id_part(cluster or 'unnamed')}.{incarnation}"


def segment_id(log: str, base_offset: int, digest: str, generation: int = GENERATION_INGESTED) -> str:
    """Return the id of a segment. It depends on log, place and bytes, so a copy after a crash gets the same name."""
    return hashlib.sha256(f"{log}\n{base_offset}\n{generation}\n{digest}".encode()).hexdigest()[:32]


def log_folder(log: str) -> str:
    """Return the folder of a log's archived segments, relative to the lake.

    A topic without an id contributes its whole name. With the cluster's name that can be too long for a folder name.
    """
    return "/".join(("archive", *(storage.folder_name(part) for part in log.split("/"))))


def in_place_of(
    segments: Sequence[Segment],
    digest: str,
    size: int,
    *,
    generation: int,
    sealed: bool,
    modified_ms: int,
    max_timestamp: int | None,
    ending: Segment,
) -> Segment:
    """Return the row of a new file that replaces neighbouring segments.

    Args:
        segments: The replaced segments, in offset order.
        digest: Digest of the new file, which has no other bytes.
        size: Size of the new file, in bytes.
        ending: The segment whose last batch is the last one of the file.
    """
    first = segments[0]
    identity = segment_id(first.log, first.base_offset, digest, generation)
    return replace(
        first,
        segment_id=identity,
        next_offset=segments[-1].next_offset,
        path=segment_path(first.log, identity, first.base_offset),
        start=0,
        size=size,
        sealed=sealed,
        digest=digest,
        modified_ms=modified_ms,
        max_timestamp=max_timestamp,
        generation=generation,
        last_batch_base_offset=ending.last_batch_base_offset,
        last_batch_epoch=ending.last_batch_epoch,
        last_batch_crc=ending.last_batch_crc,
        last_batch_size=ending.last_batch_size,
        last_batch_end=ending.last_batch_end,
        etag=None,
        chunk_map=None,
    )


def segment_path(log: str, identity: str, base_offset: int) -> str:
    """Return the path of an archived file, relative to the lake.

    The name begins with Kafka's digits, so ``kafka-dump-log`` reads the file. A segment has no folder of its own: that
    would double what a small segment takes on disk.
    """
    return f"{log_folder(log)}/{segment_file_name(base_offset, suffix='')}.{identity}{LOG_SUFFIX}"


def stem_of(path: str) -> str:
    """Return what the paths of a segment's files have in common, given one of them: its own, or that of a side file.

    A file of another name belongs to no segment: its folder is returned.
    """
    folder, _, name = path.rpartition("/")
    named = _SEGMENT_FILE.fullmatch(name)
    return folder if named is None else f"{folder}/{named[1]}"


def id_of(stem: str) -> str | None:
    """Return the segment id in a stem of :func:`stem_of`; None if no archived segment has such a stem."""
    names = stem.split("/")
    if len(names) == 4 and _SEGMENT_FILE.fullmatch(f"{names[3]}{LOG_SUFFIX}"):
        return names[3].rpartition(".")[2]
    return None


def read_logs(lake: str, logs: Sequence[str] | None = None) -> dict[str, LogRow]:
    """Return rows of ``logs`` by log key."""
    where = None if logs is None else [("log", "in", sorted(logs))]
    return {row["log"]: LogRow(**row) for row in read_rows(lake, "logs", where=where).to_pylist()}


def incarnations(lake: str) -> dict[tuple[str, int], list[str]]:
    """Return log ids by topic and partition."""
    log_ids: dict[tuple[str, int], list[str]] = {}
    for row in read_logs(lake).values():
        log_ids.setdefault((row.topic, row.partition), []).append(row.log_id)
    return log_ids


def read_segments(
    lake: str, logs: Sequence[str] | None = None, *, live: bool = True, joined: bool = True
) -> list[Segment]:
    """Return segments by (log, base offset, generation).

    Args:
        logs: Only those of these logs.
        live: Only live ones.
        joined: With the slices that were joined. Their bytes are in another segment, and a watched lake has very many.
    """
    where: list[tuple[str, str, object]] = [("retired_ms", "is_null", True)] if live else []
    if not joined:
        where.append(("retired_because", "not in", [MERGED]))
    if logs is not None:
        where.append(("log", "in", sorted(logs)))
    return _segments(lake, where)


def read_validations(lake: str, segments: Iterable[str]) -> dict[str, Validation]:
    """Return what validation counted in these segments, by id; a segment without a row is not validated."""
    columns = ["segment_id", "batches", "records", "quarantined_bytes"]
    rows = read_rows(lake, "validations", columns, [("segment_id", "in", list(segments))]).to_pylist()
    return {row.pop("segment_id"): Validation(**row) for row in rows}


def ids_in_table(lake: str, segments: Sequence[Segment]) -> tuple[set[str], set[str]]:
    """Return which ids of these segments the table has already: of rows that feed their log, and of others.

    A row that was cut back or replaced feeds no log, and new bytes may get its id again.
    """
    where: list[tuple[str, str, object]] = [
        # Of the same id, log and base offset are the same. Ids exclude no file, and these do.
        ("log", "in", sorted({segment.log for segment in segments})),
        ("base_offset", "in", sorted({segment.base_offset for segment in segments})),
        ("segment_id", "in", sorted(segment.segment_id for segment in segments)),
    ]
    rows = read_rows(lake, "segments", ["segment_id", "retired_because"], where).to_pylist() if segments else []
    idle = {row["segment_id"] for row in rows if row["retired_because"] in (CUT_BACK, FILLED, MERGED)}
    return {row["segment_id"] for row in rows} - idle, idle


def retired_at(lake: str, as_of_ms: int) -> list[Segment]:
    """Return the segments that were retired at this time by the clock of a run, by (log, base offset, generation)."""
    return _segments(lake, [("retired_ms", "==", as_of_ms)])


def _segments(lake: str, where: Sequence[tuple[str, str, object]]) -> list[Segment]:
    rows = read_rows(lake, "segments", where=where).to_pylist()
    return sorted((Segment(**row) for row in rows), key=lambda s: (s.log, s.base_offset, s.generation))


def ingested_segments(lake: str, logs: Sequence[str] | None = None) -> list[Segment]:
    """Return the segments that feed transactions, ledger and rows, by (log, base offset).

    These are all ingested segments, with those that retention or compaction retired, but without those that were cut
    back or filled.
    """
    return [s for s in read_segments(lake, logs, live=False, joined=False) if s.feeds]


def tails_of(segments: Iterable[Segment]) -> dict[str, LogTail]:
    """Return what the archive has at the end of each log.

    Args:
        segments: By (log, base offset), with retired ones. Segments that do not feed the log only show former positions
            of bytes that were found elsewhere later.
    """
    tails: dict[str, LogTail] = {}
    damaged: Segment | None = None
    for s in segments:
        if s.retired_because == FILLED and s.generation == GENERATION_INGESTED:
            damaged = s
        if not s.feeds:
            continue
        earlier = tails.get(s.log)
        if damaged is not None and _is_in(s, damaged) and s.origin_file != damaged.origin_file:
            # No file of the source has it: growth continues after the damage that it replaces.
            s = replace(damaged, last_batch_end=None, next_offset=s.next_offset)
        if s.last_batch_end is None and earlier is not None:
            # Nothing in it is readable: agreement is checked with the batch before, growth continues after it.
            place = {"source_segment": s.origin_base_offset, "source_position": s.origin_position + s.size}
            tails[s.log] = replace(earlier, next_offset=s.next_offset, **place)
            continue
        tails[s.log] = LogTail(
            next_offset=s.next_offset,
            last_batch_base_offset=s.last_batch_base_offset,
            last_batch_epoch=s.last_batch_epoch,
            last_batch_crc=s.last_batch_crc,
            last_batch_size=s.last_batch_size,
            last_batch_end=s.last_batch_end,
            last_batch_segment=s.origin_base_offset,
            source_segment=s.origin_base_offset,
            source_position=s.origin_position + s.size,
        )
    return tails


def _is_in(segment: Segment, other: Segment) -> bool:
    return (
        segment.log == other.log
        and segment.base_offset >= other.base_offset
        and segment.next_offset <= other.next_offset
    )


def guard_of(log: str, planned: int | None) -> Guard:
    """Return the guard of a commit to ``segments`` for a log that it changes."""
    return Guard(f"segments/{log}", planned, (planned or 0) + 1)


def planned_versions(lake: str, logs: Iterable[str]) -> dict[str, int | None]:
    """Return the present versions of the logs in ``segments``, for the guards of a plan."""
    return commits.versions_of_logs(lake, "segments", logs)


def commit_segments(
    lake: str, added: Sequence[Segment], planned: Mapping[str, int | None], run_id: str, as_of_ms: int
) -> None:
    """Make new segments visible, all in one commit.

    Raises:
        ConcurrentChange: A log was changed since the plan.
    """
    rows = table_of(archived(added, run_id, as_of_ms), SEGMENTS)
    guards = [guard_of(log, planned[log]) for log in sorted({s.log for s in added})]
    commits.append(lake, "segments", rows, run_id, guards)


def swap_segments(
    lake: str,
    retired: Sequence[Segment],
    added: Sequence[Segment],
    planned: Mapping[str, int | None],
    run_id: str,
    as_of_ms: int,
    because: str | Mapping[str, str],
    replaced_by: Mapping[str, str] | None = None,
    guards: Sequence[Guard] = (),
) -> None:
    """Retire segments and add their replacements in one commit; retired rows stay as history.

    Args:
        because: Why they are retired, for all of them or by segment id: ``retention``, ``compaction``, ``cut-back``,
            ``filled`` or ``merged``.
        guards: Further versions that this commit depends on and changes.

    Raises:
        ConcurrentChange: A log, or the table, was changed since the plan.
    """
    gone = [
        replace(
            s,
            retired_ms=as_of_ms,
            replaced_by=(replaced_by or {}).get(s.segment_id),
            retired_because=because if isinstance(because, str) else because[s.segment_id],
        )
        for s in retired
    ]
    rows = table_of([*gone, *archived(added, run_id, as_of_ms)], SEGMENTS)
    logs = sorted({s.log for s in (*retired, *added)})
    # The new ids too, so that no id can be there twice.
    ids = [segment.segment_id for segment in (*retired, *added)]
    moved = [guard_of(log, planned[log]) for log in logs]
    commits.replace(lake, "segments", ("segment_id", ids), rows, run_id, [*moved, *guards])


def archived(added: Sequence[Segment], run_id: str, as_of_ms: int) -> list[Segment]:
    """Return new segments as the commit states them that makes them visible."""
    return [replace(segment, archived_ms=as_of_ms, archived_by=run_id) for segment in added]


def mark_deleted(
    lake: str, segments: Sequence[Segment], planned: Mapping[str, int | None], run_id: str, as_of_ms: int
) -> None:
    """Record in one commit that the files of retired segments are deleted; from then on no job expects them.

    Raises:
        ConcurrentChange: A log, or the table, was changed since the plan.
    """
    rows = table_of([replace(s, deleted_ms=as_of_ms) for s in segments], SEGMENTS)
    ids = [segment.segment_id for segment in segments]
    moved = [guard_of(log, planned[log]) for log in sorted({s.log for s in segments})]
    commits.replace(lake, "segments", ("segment_id", ids), rows, run_id, moved)


def commit_logs(lake: str, rows: Sequence[LogRow], run_id: str) -> None:
    """Replace the rows of these logs in ``logs``; without rows nothing is written."""
    if not rows:
        return
    columns = table_of(rows, LOGS)
    commits.replace(lake, "logs", ("log", [row.log for row in rows]), columns, run_id)
