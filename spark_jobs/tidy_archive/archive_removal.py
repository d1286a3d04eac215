"""Which files of the archive are no longer needed, and their removal.

    retired     files of a segment that was retired long enough ago, and whose bytes nothing needs
    left over   files of a segment whose row says that they are deleted: a run was killed before it deleted them
    orphans     files that no row names: copies that were never committed

A row that is lost looks like one that never was. So two kinds of orphans stay, for they may be the only copy of
their records. Some were placed before the table ``segments`` was made: it was lost and read again from the sources.
Others have a row of ``validations``, and no row of ``segments`` has their first offset: an older copy of the table was
restored.

The files of a retired segment are kept in three cases:

- A live row names its file.
- Its offsets may still have to be read for the tables: they are not published, undecided, or were filled late.
- A reader that began before it was retired may still read it. The version of ``segments`` that was current one longest
  run ago, or one `file.delete.delay.ms` ago, says whether it was already retired then. Versions are dated by the clock
  of the lake's store. A watch keeps them for two days only. So a longer delay counts by this clock too.

The row changes first: one commit sets `deleted_ms`. It is refused if a log was changed since the plan. Then the files
are deleted. So no job relies on a file that is being deleted. A run that is killed in between leaves files without a
row, never a row without its files.
Files are removed only below ``<lake>/archive``, never through a link, and only if they are unchanged since the plan.
A file at a source is never deleted; other jobs retire its row.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from posixpath import basename

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from logcore.logs.model.offset_ledger import restart_offset
from spark_jobs.errors import TableUnreadable
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.tables import delta_log
from spark_jobs.lake.delta.tables.snapshots import open_dataset, open_table
from spark_jobs.lake.ledger import frontier
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.store import deletion, storage
from spark_jobs.lake.store.storage import StoredFile
from spark_jobs.lake.view.expectation_results import pending_ranges
from spark_jobs.outlines import Kept, LakeFile
from spark_jobs.policies.policies_file import Policies
from spark_jobs.policies.topic_policies import TopicPolicy

ARCHIVE = "archive"
NO_POLICY = TopicPolicy("*", ())
PROVED_MS = delta_log.VERSIONS_KEPT_MS - 2 * 3_600_000
"""The longest delay that an old version of ``segments`` has to prove: one is there for each hour of two days."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """Clocks from which ages are computed, epoch milliseconds. An age equal to a limit counts as old."""

    as_of_ms: int
    """The run's."""
    store_ms: int
    """Clock of the lake's store."""
    longest_run_ms: int
    """Upper limit for the duration of a run or a read, in milliseconds. 0: there is no other run or reader."""
    orphan_after_ms: int

    @property
    def is_alone(self) -> bool:
        """Whether no other process reads or writes the lake."""
        return self.longest_run_ms == 0


@dataclass(frozen=True, slots=True)
class RemovalPlan:
    """What can be removed."""

    segments: tuple[Segment, ...]
    """Retired segments whose rows will say that their files are gone."""
    files: tuple[LakeFile, ...]
    """Files of these segments, and files left over from others. Ages count from when a segment was retired."""
    orphans: tuple[LakeFile, ...]
    folders: tuple[str, ...]
    """Empty folders, the innermost first."""
    kept: tuple[Kept, ...]
    kept_orphans: tuple[LakeFile, ...] = ()
    """Old enough, and maybe the only copy of their records."""

    def __bool__(self) -> bool:
        return bool(self.segments or self.files or self.orphans or self.folders)


NOTHING = RemovalPlan((), (), (), (), ())


def plan_removal(
    lake: str,
    segments: Sequence[Segment],
    files: Iterable[StoredFile],
    policies: Policies,
    clocks: Clocks,
    unrecorded: Collection[str] = (),
    validated: Collection[str] = (),
) -> RemovalPlan:
    """Plan which of ``files`` can be removed.

    Args:
        segments: All rows. Read them after the files were listed, so that they name what was committed in between.
        unrecorded: Ids of segments for which ``log_actions`` does not yet report what compaction left in them.
        validated: Ids that are validated and that no row has.
    """
    listed = _Files(lake, files)
    retired = [s for s in segments if s.retired_ms is not None and not s.lies_at_source and s.deleted_ms is None]
    due = [s for s in retired if _is_due(s, _delay(policies, s), clocks)]
    needs = _Needs(lake, segments, {s.log for s in due}, unrecorded)
    longest = max([clocks.longest_run_ms, *(min(_delay(policies, s), PROVED_MS) for s in due)])
    known = None if clocks.is_alone or not due else retired_by(lake, clocks.store_ms - longest)
    going: list[Segment] = []
    kept: list[Kept] = []
    for segment in due:
        why = needs.why(segment)
        if why is None and known is not None and known.get(segment.segment_id) != segment.retired_ms:
            why = "a reader that began before it was retired may not have finished"
        if why is None:
            going.append(segment)
        else:
            kept.append(Kept(segment.log, segment.base_offset, segment.segment_id, why))
    gone = [s for s in segments if s.deleted_ms is not None and not s.lies_at_source]
    named = {archive.stem_of(s.path) for s in segments if s.deleted_ms is None and not s.lies_at_source}
    going_or_gone = [s for s in (*going, *gone) if needs.why(s) is None]
    leaving = {
        archive.stem_of(s.path): (clocks.as_of_ms - (s.retired_ms or 0), _delay(policies, s)) for s in going_or_gone
    }
    removed = [
        LakeFile(path, file.size, age, max(age - delay, 0))
        for stem, (age, delay) in leaving.items()
        for path, file in listed.of(stem)
        if file.placed_ms <= clocks.store_ms - clocks.longest_run_ms
    ]
    made_ms = _made_ms(lake)
    orphans: list[LakeFile] = []
    kept_orphans: list[LakeFile] = []
    for path, file in listed.outside(named | {archive.stem_of(s.path) for s in gone}):
        waits_ms = (age := min(clocks.as_of_ms, clocks.store_ms) - file.placed_ms) - clocks.orphan_after_ms
        if waits_ms >= 0:
            goes = is_unfinished(path) or not (file.placed_ms < made_ms or _is_uncovered(path, segments, validated))
            (orphans if goes else kept_orphans).append(LakeFile(path, file.size, age, waits_ms))
    return RemovalPlan(
        tuple(going),
        _by_age(removed),
        _by_age(orphans),
        tuple(deletion.empty_folders(lake, ARCHIVE, unchanged_since_ms=clocks.store_ms - clocks.longest_run_ms)),
        tuple(kept),
        _by_age(kept_orphans),
    )


def remove(
    lake: str, plan: RemovalPlan, planned: Mapping[str, int | None], run_id: str, clocks: Clocks
) -> tuple[list[LakeFile], list[tuple[LakeFile, str]]]:
    """Commit, then delete.

    Returns:
        The files that are gone, and those that could not be deleted, each with the reason.

    Raises:
        ConcurrentChange: A log was changed since the plan. No file is deleted then.
    """
    if plan.segments:
        archive.mark_deleted(lake, plan.segments, planned, run_id, clocks.as_of_ms)
    files = {file.path: file for file in (*plan.files, *plan.orphans)}
    done = deletion.delete_all_below(lake, list(files), placed_before_ms=clocks.store_ms)
    removed = [files[path] for path in done.removed]
    failed = [(files[path], why) for path, why in done.failed]
    for folder in plan.folders:
        try:
            deletion.remove_folder(lake, folder)
        except OSError as error:
            failed.append((LakeFile(folder, 0, 0), error.strerror or str(error)))
    return removed, failed


def archive_files(lake: str) -> list[StoredFile]:
    """The regular files below ``<lake>/archive``. Links are ignored."""
    return list(deletion.own_files_below(storage.join(lake, ARCHIVE)))


def retired_by(lake: str, at_ms: int) -> dict[str, int]:
    """Ids and `retired_ms` of the segments that were retired at a time of the store's clock.

    Read from the version of ``segments`` that was current then. Empty where that version is unknown or cannot be read.
    """
    files = delta_log.log_files(lake, "segments")
    # A checkpoint is a whole version too, and some outlive the commits.
    versions = (*files.checkpoints.items(), *files.commits.items())
    stood = max((version for version, file in versions if file.placed_ms <= at_ms), default=-1)
    try:
        table = open_table(lake, "segments", stood) if stood >= 0 else None
        return {} if table is None else _retired_in(lake, table)
    except (DeltaError, FileNotFoundError, TableUnreadable):
        return {}


def _retired_in(lake: str, table: DeltaTable) -> dict[str, int]:
    rows = open_dataset(lake, "segments", table).to_table(columns=["segment_id", "retired_ms"]).to_pylist()
    return {row["segment_id"]: row["retired_ms"] for row in rows if row["retired_ms"] is not None}


class _Files:
    """Files of the archive by the stem of their segment."""

    def __init__(self, lake: str, files: Iterable[StoredFile]) -> None:
        self._by_stem: dict[str, list[tuple[str, StoredFile]]] = {}
        for file in files:
            path = storage.relative(file.path, lake)
            self._by_stem.setdefault(archive.stem_of(path), []).append((path, file))

    def of(self, stem: str) -> list[tuple[str, StoredFile]]:
        """The files of a segment."""
        return self._by_stem.get(stem, [])

    def outside(self, named: set[str]) -> list[tuple[str, StoredFile]]:
        """The files of no named segment, and unfinished files."""
        return [
            (path, file)
            for stem, files in self._by_stem.items()
            for path, file in files
            if stem not in named or is_unfinished(path)
        ]


class _Needs:
    """What retired segments are still needed for."""

    def __init__(self, lake: str, segments: Sequence[Segment], logs: set[str], unrecorded: Collection[str]) -> None:
        wanted = sorted(logs)
        self._unrecorded = unrecorded
        self._live = {archive.stem_of(s.path) for s in segments if s.retired_ms is None}
        self._frontiers = frontier.read_frontiers(lake, wanted)
        self._uncommitted = commits.versions_of_logs(lake, "records_uncommitted", wanted)
        self._ledger = frontier.read_ledger(lake, wanted) if wanted else {}
        self._unchecked = pending_ranges(lake) if wanted else {}

    def why(self, segment: Segment) -> str | None:
        """Why a segment's files must be kept; None where they need not."""
        if not _lies_in_archive(segment.path):
            return f"its path {segment.path!r} is not in the archive"
        if archive.stem_of(segment.path) in self._live:
            return "a live segment has its place"
        if segment.segment_id in self._unrecorded and segment.deleted_ms is None:
            return "log_actions does not report yet what compaction left in it"
        if not segment.feeds or segment.deleted_ms is not None:
            return None
        log = segment.log
        published = self._frontiers[log] or 0
        if segment.next_offset > published:
            return f"nothing is published from offset {published} on"
        decided = self._uncommitted[log]
        if decided is not None and segment.next_offset > decided:
            return f"records_uncommitted is decided up to offset {decided}"
        ledger = self._ledger.get(log, [])
        undecided = restart_offset(ledger) if ledger else 0
        if segment.next_offset > undecided:
            return f"the log is undecided from offset {undecided} on"
        late = [row for row in ledger if row.shows and not row.published]
        if any(_meets(segment, row.start_offset, row.end_offset) for row in late):
            return "offsets of it came late, below the frontier, and are not published yet"
        if any(segment.base_offset < border < segment.next_offset for border in self._unchecked.get(log, ())):
            return "its published rows are not checked yet"
        return None


def _made_ms(lake: str) -> float:
    """When the table ``segments`` was made, by the clock of its writer; in the future if that is unknown."""
    table = open_table(lake, "segments")
    made_ms = None if table is None else table.metadata().created_time
    return math.inf if made_ms is None else made_ms


def _is_uncovered(path: str, segments: Sequence[Segment], validated: Collection[str]) -> bool:
    """Whether an orphan was validated, and no row of its log has its first offset."""
    stem = archive.stem_of(path)
    if archive.id_of(stem) not in validated:
        return False
    first = int(basename(stem).partition(".")[0])
    folder = stem.rpartition("/")[0]
    return not any(s.base_offset <= first < s.next_offset and archive.log_folder(s.log) == folder for s in segments)


def _meets(segment: Segment, start: int, end: int) -> bool:
    return segment.base_offset < end and segment.next_offset > start


def _is_due(segment: Segment, delay_ms: int, clocks: Clocks) -> bool:
    now_ms = clocks.as_of_ms
    if delay_ms > PROVED_MS and not clocks.is_alone:
        now_ms = min(now_ms, clocks.store_ms)
    return now_ms - (segment.retired_ms or 0) > delay_ms


def _delay(policies: Policies, segment: Segment) -> int:
    return (policies.for_topic(segment.topic) or NO_POLICY).file_delete_delay_ms


def _lies_in_archive(path: str) -> bool:
    names = path.split("/")
    return names[0] == ARCHIVE and len(names) > 2 and not any(name in ("", ".", "..") for name in names)


def is_unfinished(path: str) -> bool:
    """Whether a file is a partial write that was never renamed to its final path."""
    return basename(path).startswith(".") and path.endswith(".writing")


def _by_age(files: Iterable[LakeFile]) -> tuple[LakeFile, ...]:
    return tuple(sorted(files, key=lambda file: (-file.age_ms, file.path)))
