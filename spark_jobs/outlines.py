"""What a job reports of its work, and what a dry run prints: a frozen value for each job.

`contracts` makes JSON of them, with the fields in their order. A field whose default is None or a text is left out
while it has that value. A name that is a word of Python has an underscore at its end, which JSON leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Self, TypeVar

from logcore.exit_codes import ExitCode
from logcore.logs.model.findings import Finding, Severity
from logcore.topics.placement import SourceDirectory

Scalar = str | int | float | bool | None


class Outline:
    """Base of values that leave fields out of JSON. A plan may have more fields than its outline."""

    @classmethod
    def of(cls, plan: Self) -> Self:
        """Return the outline of a plan that is a subclass."""
        return cls(*(getattr(plan, each.name) for each in fields(cls)))  # type: ignore[arg-type]


Outline_co = TypeVar("Outline_co", bound=Outline, covariant=True)


@dataclass(frozen=True, slots=True)
class LogOutline(Outline):
    """A log."""

    log: str
    """Its key, ``<log_id>/<partition>``."""
    topic_partition: str


@dataclass(frozen=True, slots=True)
class PartitionOutline(Outline):
    """A log, with topic and partition apart."""

    log: str
    topic: str
    partition: int


# --- ingest ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TakenBytes(Outline):
    """Bytes of a source file that are copied."""

    file: str
    from_: int
    sealed: bool


@dataclass(frozen=True, slots=True)
class SliceOutline(Outline):
    """Bytes that replace a retired segment, or a part of it."""

    source: str
    start: int
    first_offset: int
    end: int | None


@dataclass(frozen=True, slots=True)
class SwapOutline(Outline):
    """Segments that are retired, and their replacements."""

    because: str
    retires: tuple[str, ...]
    copies: tuple[SliceOutline, ...]


@dataclass(frozen=True, slots=True)
class GrownLog(LogOutline):
    """What is archived of a log."""

    stopped: str | None
    takes: tuple[TakenBytes, ...]
    swaps: tuple[SwapOutline, ...]


@dataclass(frozen=True, slots=True)
class IngestOutline(Outline):
    """What is archived."""

    cluster: str | None
    logs: tuple[GrownLog, ...] = ()
    findings: tuple[str, ...] = ()
    """Those that no earlier run recorded, as texts."""
    of_paths: tuple[Finding, ...] = ()
    """All findings about the source paths."""


# --- validate, publish, replace, check_foreign_rows, verify, recover ------------------------------------------------


@dataclass(frozen=True, slots=True)
class UnvalidatedLog(LogOutline):
    """A log to validate."""

    segments: tuple[str, ...]
    from_offset: int
    high_watermark: int | None


@dataclass(frozen=True, slots=True)
class ValidateOutline(Outline):
    """What is validated."""

    logs: tuple[UnvalidatedLog, ...]
    unfinished_segments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RangeToPublish(PartitionOutline):
    """Offsets that are published."""

    start_offset: int
    end_offset: int
    records: int
    files: int


@dataclass(frozen=True, slots=True)
class UncommittedRange(PartitionOutline):
    """Offsets of which ``records_uncommitted`` is written again."""

    start_offset: int
    decided_offset: int
    end_offset: int
    removed_files: int


@dataclass(frozen=True, slots=True)
class PublishOutline(Outline):
    """What is published."""

    logs: tuple[RangeToPublish, ...]
    waiting: tuple[str, ...]
    stale_ledgers: tuple[str, ...]
    uncommitted: tuple[UncommittedRange, ...]


@dataclass(frozen=True, slots=True)
class ReplacedRanges(PartitionOutline):
    """Ranges of a log that are compared with the archive."""

    records: int
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ReplaceOutline(Outline):
    """What is published again."""

    logs: tuple[ReplacedRanges, ...] = ()
    refused: tuple[str, ...] = ()
    """Why other ranges are not, as texts."""
    withdrawn: tuple[str, ...] = ()
    """Requested offsets that stay withdrawn, as texts."""


@dataclass(frozen=True, slots=True)
class ForeignFiles(Outline):
    """Files of ``records`` that other engines wrote."""

    files: tuple[str, ...]
    """Those to compare."""
    answers: Mapping[str, object]
    """By file, as ``tables.json`` has them."""


@dataclass(frozen=True, slots=True)
class VerifiedPart(Outline):
    """Which part of a lake is verified."""

    part: int
    parts: int


@dataclass(frozen=True, slots=True)
class RecoverOutline(Outline):
    """Logs that are recovered, and what that loses."""

    logs: tuple[Mapping[str, Any], ...]
    """Values as `loglake recover` prints them."""
    exit_code: ExitCode = ExitCode.CLEAN
    """As of `loglake recover`: also when the losses were recorded before."""


# --- expectations ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RangePlan:
    """A published range and its expected contents."""

    log: str
    topic: str
    log_id: str
    partition: int
    start_offset: int
    end_offset: int
    expected_rows: int
    crc_failures: int
    crc_failures_of_log: int
    log_end_offset: int
    frontier: int
    unpublished_decided_offsets: int
    """Offsets that could have been published and were not."""

    @property
    def lag(self) -> int:
        """Offsets from the frontier to the log end."""
        return self.log_end_offset - self.frontier


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """The result of one expectation."""

    name: str
    success: bool
    severity: str
    observed: str
    failing: tuple[str, ...] = ()
    """Logs on whose row it fails."""
    is_of_rows: bool = False
    """Whether only a job on Spark finds it, which reads each row: counts do not show it."""


@dataclass(frozen=True, slots=True)
class RangesOutline(Outline):
    """The ranges to check, or what was found in them."""

    ranges: tuple[RangePlan, ...] | None = None
    expectations: tuple[ExpectationResult, ...] | None = None
    frame: tuple[Mapping[str, Scalar], ...] | None = None
    """A row of figures for each range."""
    data_docs: str | None = None


# --- decode, latest, cluster ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TopicOutline(Outline):
    """A topic whose table follows ``records``."""

    topic: str
    left: int
    """Offsets that are published and not in the table."""
    replaces: bool
    waits: str | None
    """Why nothing more is written; None: it does not wait."""
    note: str | None


@dataclass(frozen=True, slots=True)
class DecodedOutline(TopicOutline):
    """A topic that is decoded."""

    retried: str | None = ""
    """What was decoded the plain way, because a worker died; empty before the tasks."""
    decoded: int | None = None
    undecoded: Mapping[str, int] | None = None
    """Rows by reason. Like ``decoded``, it is known after the commit."""


@dataclass(frozen=True, slots=True)
class LatestCounts:
    """What was read and written of a log."""

    start_offset: int
    end_offset: int
    rows_read: int
    without_key: int
    tombstones: int
    rows_written: int
    rows_moved: int


@dataclass(frozen=True, slots=True)
class LatestOutline(TopicOutline):
    """A topic of which the newest row of each key is kept."""

    logs: tuple[LatestCounts, ...] | None = None
    """Known after the commit."""


Topic_co = TypeVar("Topic_co", bound=TopicOutline, covariant=True)


@dataclass(frozen=True, slots=True)
class FollowingOutline(Outline, Generic[Topic_co]):
    """All topics that the policies name."""

    topics: tuple[Topic_co, ...]


@dataclass(frozen=True, slots=True)
class ClusterFinding(Outline):
    """A finding on an internal topic."""

    rule: str
    severity: Severity
    message: str


@dataclass(frozen=True, slots=True)
class ClusterOutline(Outline):
    """What the internal topics at the sources say."""

    rows: Mapping[str, int] = field(default_factory=dict)
    """Rows to write, by table."""
    findings: tuple[ClusterFinding, ...] = ()
    logs: tuple[str, ...] = ()
    waits: Mapping[str, str] = field(default_factory=dict)
    """Why an internal log is not read."""
    beyond_log_end: tuple[str, ...] = ()
    directories: tuple[SourceDirectory, ...] = ()


# --- maintenance ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UnfinishedOutline(Outline):
    """What an earlier run removed and did not record."""

    segments: tuple[str, ...] = ()
    ledgers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DueSegment(Outline):
    """A segment that retention retires."""

    base_offset: int
    next_offset: int
    bytes: int
    rule: str
    why: str
    due_since_ms: int | None
    """When its age reached `retention.ms`, epoch milliseconds; None if another rule retires it."""


@dataclass(frozen=True, slots=True)
class DueLog(LogOutline):
    """A log of which retention retires segments."""

    log_start_offset: int
    bytes: int
    segments: tuple[DueSegment, ...]
    stays: int | None
    """Base offset of the first segment that stays."""
    why_it_stays: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeptLog(LogOutline):
    """A log with a policy of which nothing is due."""

    stays: int | None
    why_it_stays: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DoubtedLog(LogOutline):
    """A log of which no setting of the cluster is used."""

    why: str


@dataclass(frozen=True, slots=True)
class ExpiredLog(LogOutline):
    """A log whose oldest rows leave the tables."""

    start_offset: int
    end_offset: int
    records: int
    retention_ms: int | None
    """Age from which rows leave: ``records.retention.ms``; None: an earlier run recorded that they leave."""


@dataclass(frozen=True, slots=True)
class UnexpiredLog(LogOutline):
    """A log whose rows stay although they are too old."""

    why: str


@dataclass(frozen=True, slots=True)
class OldRuns(Outline):
    """Rows of the table ``runs`` that are removed."""

    count: int


@dataclass(frozen=True, slots=True)
class RetentionOutline(Outline):
    """What retention retires."""

    logs: tuple[DueLog, ...] = ()
    nothing_due: tuple[KeptLog, ...] = ()
    unfinished: UnfinishedOutline = UnfinishedOutline()
    in_doubt: tuple[DoubtedLog, ...] = ()
    rows: tuple[ExpiredLog, ...] = ()
    rows_kept: tuple[UnexpiredLog, ...] = ()
    old_runs: OldRuns | None = None


@dataclass(frozen=True, slots=True)
class DirtyLog(LogOutline):
    """A log that is cleaned."""

    compat: str
    first_dirty: int
    end_offset: int
    dirty_ratio: float
    segments: tuple[int, ...]
    bytes: int
    spread: bool


@dataclass(frozen=True, slots=True)
class NotCleaned(LogOutline):
    """A log with a policy that is not cleaned this time."""

    reason: str
    refused: bool | None = None
    """True: an earlier run could not clean it, for the same reason."""


@dataclass(frozen=True, slots=True)
class CompactionOutline(Outline):
    """What compaction cleans."""

    logs: tuple[DirtyLog, ...] = ()
    passed: tuple[NotCleaned, ...] = ()
    unfinished: UnfinishedOutline = UnfinishedOutline()


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A file of the lake that may be removed: path relative to the lake, bytes, and age."""

    path: str
    size: int
    age_ms: int
    waits_ms: int = 0
    """How long it could have been removed already."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A retired segment whose files are kept after their delay, and the reason."""

    log: str
    base_offset: int
    segment_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class LakeFiles(Outline):
    """Files that can be removed, the oldest first."""

    count: int = 0
    bytes: int = 0
    files: tuple[LakeFile, ...] = ()
    segments: int | None = None


@dataclass(frozen=True, slots=True)
class KeptFiles(Outline):
    """Segments whose files stay."""

    count: int = 0
    segments: tuple[Kept, ...] = ()


@dataclass(frozen=True, slots=True)
class JoinedSlices(Outline):
    """Slices of a log that become one segment."""

    log: str
    base_offsets: tuple[int, ...]
    size: int


@dataclass(frozen=True, slots=True)
class Mergeable(Outline):
    """All slices that are joined."""

    count: int = 0
    bytes: int = 0
    logs: tuple[JoinedSlices, ...] = ()


@dataclass(frozen=True, slots=True)
class TidyOutline(Outline):
    """What leaves the archive, and what is joined."""

    deletable: LakeFiles = LakeFiles()
    kept: KeptFiles = KeptFiles()
    orphans: LakeFiles = LakeFiles()
    mergeable: Mergeable = Mergeable()
    unrecorded: int = 0
    kept_orphans: LakeFiles = LakeFiles()
    """Files that no row names, and that may be the only copy of their records."""


@dataclass(frozen=True, slots=True)
class UnindexedLog(Outline):
    """A log whose side files are written."""

    log: str
    segments: int
    bytes: int


@dataclass(frozen=True, slots=True)
class UnindexedSegment(Outline):
    """A segment without side files."""

    log: str
    base_offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """A live segment that gets no side files, and why."""

    log: str
    base_offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class IndexesOutline(Outline):
    """Side files that are written."""

    logs: tuple[UnindexedLog, ...] = ()
    segments: tuple[UnindexedSegment, ...] = ()
    skipped: tuple[Skipped, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOutline(Outline):
    """Files of a table that are merged; of ``records`` those of one log."""

    table: str
    topic: str | None = None
    partition: int | None = None
    log: str | None = None
    start_offset: int | None = None
    end_offset: int | None = None
    files: int
    into: int
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class LeftTable:
    """A table whose files stay as they are, or files of one topic in it, and why."""

    table: str
    """``decoded/<topic>``, ``records/<topic>``."""
    why: str
    """The reason, and the command that writes the files again."""


@dataclass(frozen=True, slots=True)
class UnusedFile(Outline):
    """A file that no version of its table names."""

    table: str
    path: str
    size: int
    age_ms: int
    was_live: bool


@dataclass(frozen=True, slots=True)
class UnusedFiles(Outline):
    """Files of tables that are removed."""

    count: int = 0
    bytes: int = 0
    floor_ms: int = 0
    files: tuple[UnusedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class OptimizeOutline(Outline):
    """What happens to files of tables."""

    merges: tuple[MergeOutline, ...] = ()
    left: tuple[LeftTable, ...] = ()
    vacuum: UnusedFiles = UnusedFiles()
    checkpoints: Mapping[str, int] = field(default_factory=dict)
    """Commits since the last checkpoint, for tables where one is due."""
