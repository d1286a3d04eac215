"""``tidy_archive``: delete archive files that are no longer needed, and join small slices.

    plan     what may be removed, and why the rest is kept; which slices fit together  (driver, no JVM)
    delete   rows first, in one commit, then the files                                 (driver)
    merge    slices joined, read back and validated                                    (workers, or driver if small)
    swap     `batches`, `validations`, then one commit: slices out, joined segments in (driver)
    record   `log_actions`, and the ledger where a compacted segment's files are gone

Without ``apply`` only the plan is made. Files of tables are merged and removed by ``optimize``.

Adjacent slices of one source segment, joined and validated as one archived segment.

Runs in a worker. Each slice is checked against its digest. The joined file is read back and validated like any new
segment: a live segment is always validated, so its rows of ``batches`` exist before it does. No reader sees the segment
until the driver commits.

This module joins slices into a file and makes its row. ``tidy_archive`` selects the slices and swaps the segments.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from logcore.errors import LogError
from logcore.logs.model.findings import Finding, found
from logcore.segments.filenames import segment_file_name
from logcore.segments.scanning.scan import End
from spark_jobs.archived_rows.segment_pass import ValidatedSegment, validate_into_files
from spark_jobs.contracts import JobReport, LogChange, TidyArchiveConfig
from spark_jobs.engine.executor import Executor, run_tasks
from spark_jobs.errors import UsageError
from spark_jobs.lake.cluster.cluster_settings import lake_policies
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import TableVersions
from spark_jobs.lake.delta.state.tables_file import refuse_lost
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.ledger import finding_rows
from spark_jobs.lake.segments import archive, log_actions, removals
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.segments.validations import RULES_VERSION
from spark_jobs.lake.store import mapped_file, storage
from spark_jobs.lake.table_specs import VALIDATIONS
from spark_jobs.outlines import JoinedSlices, KeptFiles, LakeFile, LakeFiles, Mergeable, TidyOutline
from spark_jobs.placed_finding import PlacedFinding
from spark_jobs.policies.policies_file import Policies
from spark_jobs.reads import Reads
from spark_jobs.tidy_archive import archive_removal
from spark_jobs.tidy_archive.archive_removal import NO_POLICY, Clocks, RemovalPlan

if TYPE_CHECKING:
    from hashlib import _Hash


CHUNK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class SegmentMergeTask:
    """Slices to join."""

    lake: str
    slices: Slices
    validated: tuple[str, ...] = ()
    """Ids that are validated and that no row of ``segments`` has: an earlier run may have stopped there."""

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return archive.reads_of(self.slices.segments)


def fit_together(before: Segment, after: Segment) -> bool:
    """Whether the second begins, in source position and in offset, where the first ends."""
    return (
        (before.log, before.origin_file, before.origin_base_offset)
        == (after.log, after.origin_file, after.origin_base_offset)
        and before.next_offset == after.base_offset
        and before.origin_position + before.size == after.origin_position
    )


@dataclass(frozen=True, slots=True)
class MergedSlices:
    """The segment that replaces the slices."""

    segment: Segment
    validated: ValidatedSegment | None
    """None if an earlier run validated it."""


@dataclass(frozen=True, slots=True)
class NotMerged:
    """Why the slices were not merged."""

    reason: str


def merge_slices(task: SegmentMergeTask) -> MergedSlices | NotMerged:
    """Join slices into one segment, and validate it."""
    try:
        merged = _joined(task)
        if merged.segment_id in task.validated:
            path = merged.local_path(task.lake)
            if mapped_file.digest_of(path, 0, merged.size) != merged.digest:
                raise LogError("what was written cannot be read back as it was", file=path)
            return MergedSlices(merged, None)
        validated = validate_into_files(task.lake, merged)
    except LogError as error:
        return NotMerged(str(error))
    except OSError as error:
        return NotMerged(error.strerror or str(error))  # without the file name: it differs on each run
    if isinstance(validated, Finding):
        return NotMerged(validated.message)
    wrong = _difference(task, merged, validated)
    return NotMerged(wrong) if wrong else MergedSlices(merged, validated)


def _joined(task: SegmentMergeTask) -> Segment:
    slices = task.slices.segments
    with storage.staged(storage.join(task.lake, archive.log_folder(task.slices.log))) as copy:
        whole = hashlib.sha256()
        with open(copy.path, "xb") as file:
            for each in slices:
                _append(task.lake, each, file, whole)
        merged = _row(slices, whole.hexdigest())
        copy.place(storage.join(task.lake, merged.path), modified_ms=merged.modified_ms)
    return merged


def _append(lake: str, segment: Segment, file: BinaryIO, whole: _Hash) -> None:
    path = segment.local_path(lake)
    digest = hashlib.sha256()
    with mapped_file.mapped(path) as mapped, memoryview(mapped) as content:
        if len(content) != segment.size:
            raise LogError(f"it has {len(content)} bytes where {segment.size} were archived", file=path)
        for start in range(0, segment.size, CHUNK_BYTES):
            chunk = content[start : start + CHUNK_BYTES]
            for each in (digest, whole):
                each.update(chunk)
            file.write(chunk)
    if digest.hexdigest() != segment.digest:
        raise LogError("its bytes are not those that were archived", file=path)


def _row(slices: Sequence[Segment], digest: str) -> Segment:
    last = slices[-1]
    return archive.in_place_of(
        slices,
        digest,
        sum(s.size for s in slices),
        generation=archive.GENERATION_INGESTED,
        sealed=last.sealed,
        modified_ms=last.modified_ms,
        max_timestamp=max((s.max_timestamp for s in slices if s.max_timestamp is not None), default=None),
        ending=next((s for s in reversed(slices) if s.last_batch_end is not None), last),
    )


def _difference(task: SegmentMergeTask, merged: Segment, validated: ValidatedSegment) -> str | None:
    """Which counts differ from those of the slices; None if all are equal."""
    changed = [finding.message for finding in validated.findings if finding.rule == "archive-changed"]
    if changed:
        return changed[0]
    counts = validated.counts
    compared = {
        "verdict": (counts.verdict, str(End.CLEAN)),
        "bytes": (counts.valid_bytes, merged.size),
        "batches": (counts.batches, task.slices.total("batches")),
        "records": (counts.records, task.slices.total("records")),
        "control records": (counts.control_records, task.slices.total("control_records")),
    }
    wrong = [f"{name} {found}, not {expected}" for name, (found, expected) in compared.items() if found != expected]
    return f"the joined segment was validated with other results than its slices: {', '.join(wrong)}" if wrong else None


LEAST_ORPHAN_MS = 7 * 86_400_000

LISTED_FILES = 1000
"""A report names at most this many files of each kind, oldest first. It counts all of them."""

COUNTS = ("batches", "records", "control_records", "file_bytes", "valid_bytes", "findings")


@dataclass(frozen=True, slots=True)
class TidyArchivePlan:
    """The work to do. The dry run prints it."""

    removal: RemovalPlan
    merges: tuple[Slices, ...]
    versions: Mapping[str, int | None]
    """Versions of the logs in ``segments``, read before the rows."""
    table_versions: Mapping[str, int | None]
    """Versions of the tables that validation writes."""
    clocks: Clocks
    applied: bool
    unrecorded: tuple[Mapping[str, object], ...] = ()
    """Rows of ``log_actions`` that an earlier run did not write."""
    unmarked: tuple[str, ...] = ()
    """Logs whose ledger does not yet record what left the archive."""
    stale: tuple[str, ...] = ()
    """Merged slices without files. Their rows of ``validations`` and ``batches`` are no longer needed."""
    validated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Ids by log that are validated and that no row of ``segments`` has."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to delete, merge or record."""
        return not (self.removal or self.merges or self.unrecorded or self.unmarked or self.stale)

    @property
    def task_bytes(self) -> int | None:
        """Bytes that the tasks read; None: there are no tasks."""
        return sum(slices.size for slices in self.merges) if self.applied and self.merges else None

    @property
    def outline(self) -> TidyOutline:
        """What a report and a dry run say of it."""
        removal = self.removal
        joined = [JoinedSlices(m.log, tuple(s.base_offset for s in m.segments), m.size) for m in self.merges]
        return TidyOutline(
            replace(_listed(removal.files), segments=len(removal.segments)),
            KeptFiles(len(removal.kept), removal.kept[:LISTED_FILES]),
            _listed(removal.orphans),
            Mergeable(len(joined), sum(each.size for each in joined), tuple(joined[:LISTED_FILES])),
            len(self.unrecorded),
            _listed(removal.kept_orphans),
        )


def plan(config: TidyArchiveConfig) -> TidyArchivePlan:
    """List the archive's files, then read the tables.

    Raises:
        UsageError: The policies cannot be read, or the ages are so small that a run or a reader could lose files.
        TableUnreadable: A table that says which files are needed was lost.
    """
    lake = config.lake
    policies = lake_policies(config.policies, config.lake, config.as_of_ms)
    clocks = _clocks(config)
    if config.only_join:
        return _plan_to_join(config, policies, clocks)
    refuse_lost(lake, "segments", "logs")
    # Read the versions first: a later commit of another run then refuses this plan.
    table_versions = commits.table_versions(lake, "validations", "batches")
    files = archive_removal.archive_files(lake)
    logs = sorted(archive.read_logs(lake))
    versions = archive.planned_versions(lake, logs)
    segments = archive.read_segments(lake, live=False)
    ids = {segment.segment_id for segment in segments}
    validations = {row["segment_id"]: row for row in read_rows(lake, "validations").to_pylist()}
    elsewhere: dict[str, list[str]] = {}
    for segment_id, row in validations.items():
        if segment_id not in ids:
            elsewhere.setdefault(row["log"], []).append(segment_id)
    live = [s for s in segments if s.retired_ms is None]
    merges = tuple(mergeable(live, validations, policies, config.small_bytes))
    unfinished = removals.unfinished(lake)
    unrecorded = {each.replacement.segment_id for each in unfinished.actions if each.replacement is not None}
    removal = archive_removal.plan_removal(
        lake, segments, files, policies, clocks, unrecorded, validations.keys() - ids
    )
    return TidyArchivePlan(
        removal=replace(removal, orphans=tuple(f for f in removal.orphans if not _is_taken_up(f, merges))),
        merges=merges,
        unrecorded=tuple(log_actions.unrecorded(lake, segments)),
        unmarked=unfinished.ledgers,
        stale=tuple(_stale(lake, segments, validations)),
        versions=versions | {s.log: versions.get(s.log) for s in segments},
        table_versions=table_versions,
        validated={log: tuple(sorted(found_here)) for log, found_here in elsewhere.items()},
        clocks=clocks,
        applied=config.apply,
    )


def _plan_to_join(config: TidyArchiveConfig, policies: Policies, clocks: Clocks) -> TidyArchivePlan:
    """Plan merges from live rows alone: a watch does this often, and a lake has many more retired ones."""
    lake = config.lake
    table_versions = commits.table_versions(lake, "validations", "batches")
    versions = archive.planned_versions(lake, sorted(archive.read_logs(lake)))
    live = archive.read_segments(lake)
    small = [s.segment_id for s in live if config.small_bytes is None or s.size < config.small_bytes]
    where: list[tuple[str, str, object]] = [("segment_id", "in", small)]
    validations = {row["segment_id"]: row for row in read_rows(lake, "validations", where=where).to_pylist()}
    return TidyArchivePlan(
        removal=archive_removal.NOTHING,
        merges=tuple(mergeable(live, validations, policies, config.small_bytes)),
        versions=versions | {s.log: versions.get(s.log) for s in live},
        table_versions=table_versions,
        clocks=clocks,
        applied=config.apply,
    )


def apply(plan: TidyArchivePlan, config: TidyArchiveConfig, executor: Executor | None = None) -> JobReport[TidyOutline]:
    """Delete, merge and record. Without ``config.apply`` only report the plan.

    Raises:
        ConcurrentChange: A log was changed since the plan.
    """
    report = JobReport.of(config, plan.outline, metrics={"applied": False})
    if not config.apply:
        return report
    lake, run_id = config.lake, config.run_id
    removals.mark_ledgers(lake, run_id, plan.unmarked)  # a border inside a batch is counted in the batch itself
    log_actions.record(lake, run_id, plan.unrecorded)
    # A partial write is not reported.
    going = [(file.path, file.size) for file in plan.removal.orphans if not archive_removal.is_unfinished(file.path)]
    log_actions.record(lake, run_id, log_actions.orphans(lake, going, config.as_of_ms))
    removed, failed = archive_removal.remove(lake, plan.removal, plan.versions, run_id, plan.clocks)
    moved = {segment.log for segment in plan.removal.segments}
    versions = {log: (version or 0) + 1 if log in moved else version for log, version in plan.versions.items()}
    done, placed = _merge(plan, config, executor, versions)
    if config.only_join:
        joined = archive.retired_at(lake, config.as_of_ms) if done else []
        log_actions.record(lake, run_id, log_actions.unrecorded(lake, joined))
    else:
        segments = archive.read_segments(lake, live=False)
        log_actions.record(lake, run_id, log_actions.unrecorded(lake, segments))
        removals.mark_ledgers(lake, run_id, removals.unfinished(lake).ledgers)
        validated = {row["segment_id"]: row for row in read_rows(lake, "validations", ["segment_id"]).to_pylist()}
        _forget(config, list(_stale(lake, segments, validated)))
    placed += [_not_deleted(file, why) for file, why in failed]
    return replace(
        report,
        changed=tuple(_changes(plan.removal, done)),
        findings=tuple(finding_rows.record(lake, placed, run_id, config.as_of_ms)),
        metrics={
            "applied": True,
            "deleted_segments": len(plan.removal.segments),
            "deleted_files": len(removed),
            "deleted_bytes": sum(file.size for file in removed),
            "not_deleted": len(failed),
            "merged_segments": sum(len(slices.segments) for slices, _ in done),
            "merged_bytes": sum(slices.size for slices, _ in done),
            "written_segments": len(done),
        },
    )


def _clocks(config: TidyArchiveConfig) -> Clocks:
    longest, orphan = config.longest_run_ms, config.orphan_after_ms
    if config.force:
        longest = 0
    elif orphan < max(LEAST_ORPHAN_MS, 2 * longest) or longest <= 0:
        raise UsageError(
            f"tidy_archive: files that no row names would be deleted after {orphan} ms, while a run may take {longest} "
            f"ms. The minimum is twice the longest run and at least {LEAST_ORPHAN_MS} ms, seven days: such a file "
            "may be a copy that waits for its commit. Request more, or set `force` if nothing else uses this "
            "lake."
        )
    return Clocks(config.as_of_ms, storage.clock_ms(config.lake), longest, orphan)


def _is_taken_up(file: LakeFile, merges: Iterable[Slices]) -> bool:
    """Whether an orphan may be a joined file that an earlier run did not swap in. This run may use it."""
    folder, _, name = file.path.rpartition("/")
    return any(
        folder == archive.log_folder(slices.log)
        and name.startswith(segment_file_name(slices.segments[0].base_offset, suffix="."))
        for slices in merges
    )


def _stale(lake: str, segments: Iterable[Segment], validations: Mapping[str, Any]) -> Iterator[str]:
    """Ids of merged slices whose files are gone and that still have rows of ``validations`` or ``batches``."""
    gone = [s.segment_id for s in segments if s.retired_because == archive.MERGED and s.deleted_ms is not None]
    if gone:
        where: list[tuple[str, str, object]] = [("segment_id", "in", gone)]
        noted = set(read_rows(lake, "batches", ["segment_id"], where)["segment_id"].to_pylist())
        yield from (identity for identity in gone if identity in noted or identity in validations)


def _forget(config: TidyArchiveConfig, ids: Sequence[str]) -> None:
    """Delete the rows of merged slices. Rows of ``validations`` go first, so that none remains without its batches."""
    if ids:
        for name in ("validations", "batches"):
            commits.delete(config.lake, name, ("segment_id", ids), config.run_id)


# --- merging ---------------------------------------------------------------------------------------------------------


def _merge(
    plan: TidyArchivePlan, config: TidyArchiveConfig, executor: Executor | None, versions: Mapping[str, int | None]
) -> tuple[list[tuple[Slices, Segment]], list[PlacedFinding]]:
    """Join slices, write their rows, and swap the segments.

    Returns:
        The slices with the segment that they became, and findings about those that could not be joined.
    """
    tasks = [SegmentMergeTask(config.lake, slices, plan.validated.get(slices.log, ())) for slices in plan.merges]
    results = run_tasks(executor, merge_slices, tasks, [slices.size for slices in plan.merges])
    done: list[tuple[Slices, MergedSlices]] = []
    placed: list[PlacedFinding] = []
    for slices, result in zip(plan.merges, results, strict=True):
        if isinstance(result, NotMerged):
            placed.append(_not_merged(slices, result.reason))
        else:
            done.append((slices, result))
    if done:
        _validated(plan, config, done)
        archive.swap_segments(
            config.lake,
            [segment for slices, _ in done for segment in slices.segments],
            [merged.segment for _, merged in done],
            versions,
            config.run_id,
            config.as_of_ms,
            archive.MERGED,
            {segment.segment_id: merged.segment.segment_id for slices, merged in done for segment in slices.segments},
        )
    return [(slices, merged.segment) for slices, merged in done], placed


def _validated(plan: TidyArchivePlan, config: TidyArchiveConfig, done: Sequence[tuple[Slices, MergedSlices]]) -> None:
    """Write rows of ``batches``, then of ``validations``, for the joined segments that have none."""
    expected = TableVersions(plan.table_versions)
    new = [(slices, merged.segment, merged.validated) for slices, merged in done if merged.validated is not None]
    ids = [merged.segment_id for _, merged, _ in new]
    files = [validated.files["batches"] for _, _, validated in new if "batches" in validated.files]
    where: list[tuple[str, str, object]] = [("segment_id", "in", ids)]
    for name in ("validations", "batches") if ids else ():
        begun = set(read_rows(config.lake, name, ["segment_id"], where)["segment_id"].to_pylist())
        if begun:
            commits.delete(config.lake, name, ("segment_id", sorted(begun)), config.run_id, expected)  # type: ignore[arg-type]
    commits.add_files(config.lake, "batches", files, config.run_id, expected=expected)
    rows = [_validation(slices, merged, validated) for slices, merged, validated in new]
    columns = pa.Table.from_pylist(rows, schema=VALIDATIONS)
    commits.append(config.lake, "validations", columns, config.run_id, expected=expected)


def _validation(slices: Slices, merged: Segment, validated: ValidatedSegment) -> dict[str, object]:
    row = dict(slices.validations[0]) | {count: slices.total(count) for count in COUNTS}
    return row | {
        "segment_id": merged.segment_id,
        "rules_version": RULES_VERSION,
        "split_points": validated.counts.split_points,
        "digest": merged.digest,
        # The earliest time: joining must not restart the waiting time before publication.
        "as_of_ms": min(each["as_of_ms"] for each in slices.validations),
    }


# --- findings --------------------------------------------------------------------------------------------------------


def _not_merged(slices: Slices, why: str) -> PlacedFinding:
    first, last = slices.segments[0], slices.segments[-1]
    finding = found(
        "slices-not-merged",
        f"{first.topic}-{first.partition}: {len(slices.segments)} slices stay as they are: {why}",
        file=first.path,
        start_offset=first.base_offset,
        end_offset=last.next_offset,
    )
    return PlacedFinding(finding, first.log, first.topic, first.partition)


def _not_deleted(file: LakeFile, why: str) -> PlacedFinding:
    message = f"{file.path} could not be deleted: {why}. The next run tries again."
    return PlacedFinding(found("archive-not-deleted", message, file=file.path))


def _changes(removal: RemovalPlan, done: Sequence[tuple[Slices, Segment]]) -> Iterator[LogChange]:
    named: dict[str, Segment] = {}
    metrics: dict[str, dict[str, int]] = {}
    for segment in removal.segments:
        named[segment.log] = segment
        mine = metrics.setdefault(segment.log, {})
        mine["deleted_segments"] = mine.get("deleted_segments", 0) + 1
        mine["deleted_bytes"] = mine.get("deleted_bytes", 0) + segment.size
    for slices, merged in done:
        named[merged.log] = merged
        mine = metrics.setdefault(merged.log, {})
        mine["merged_segments"] = mine.get("merged_segments", 0) + len(slices.segments)
        mine["merged_bytes"] = mine.get("merged_bytes", 0) + merged.size
    for log in sorted(named):
        yield LogChange(log, named[log].topic, named[log].partition, metrics[log])


def _listed(files: tuple[LakeFile, ...]) -> LakeFiles:
    return LakeFiles(len(files), sum(file.size for file in files), files[:LISTED_FILES])


@dataclass(frozen=True, slots=True)
class Slices:
    """Adjacent live segments that form one segment, with their rows of ``validations``."""

    segments: tuple[Segment, ...]
    validations: tuple[Mapping[str, Any], ...]

    @property
    def log(self) -> str:
        """The key of their log."""
        return self.segments[0].log

    @property
    def size(self) -> int:
        """Bytes of all slices."""
        return sum(segment.size for segment in self.segments)

    def total(self, count: str) -> int:
        """Sum of a count of ``validations``."""
        return sum(row[count] for row in self.validations)


def mergeable(
    live: Iterable[Segment],
    validations: Mapping[str, Mapping[str, Any]],
    policies: Policies,
    small_bytes: int | None = None,
) -> Iterator[Slices]:
    """Group the slices of each source segment into groups of at most `segment.bytes`.

    A log that grows between runs leaves several slices of one source file. A slice that is larger than all later ones
    together waits until the source closes the segment, so that no byte is copied again and again. Three kinds of slices
    are not joined: damaged ones, rewritten ones, and those that are registered at their source.

    Args:
        live: Segments that are not retired.
        validations: Their rows of ``validations``, by segment id.
        policies: They may set `segment.bytes`.
        small_bytes: Slices of at least this size stay alone; None: none does.
    """
    ingested = [s for s in live if s.generation == archive.GENERATION_INGESTED]
    ingested.sort(key=lambda s: (s.log, s.base_offset))
    for _, of_one_source in groupby(ingested, key=lambda s: (s.log, s.origin_base_offset)):
        for run in _runs(list(of_one_source), validations, math.inf if small_bytes is None else small_bytes):
            limit = (policies.for_topic(run[0].topic) or NO_POLICY).segment_bytes
            for group in _groups(run, limit):
                yield Slices(tuple(group), tuple(validations[s.segment_id] for s in group))


def _runs(
    slices: Sequence[Segment], validations: Mapping[str, Mapping[str, Any]], small: float
) -> Iterator[list[Segment]]:
    """Runs of undamaged slices that are small. Each slice begins where the one before it ends."""
    run: list[Segment] = []
    for segment in slices:
        row = validations.get(segment.segment_id)
        is_sound = row is not None and row["verdict"] == str(End.CLEAN) and not segment.lies_at_source
        fits = is_sound and segment.size < small
        if run and not (fits and fit_together(run[-1], segment)):
            yield run
            run = []
        if fits:
            run.append(segment)
    if run:
        yield run


def _groups(run: Sequence[Segment], limit: int) -> Iterator[list[Segment]]:
    group: list[Segment] = []
    size = 0
    for segment in run:
        if group and size + segment.size > limit:
            yield from _worth_it(group)
            group, size = [], 0
        group.append(segment)
        size += segment.size
    yield from _worth_it(group)


def _worth_it(group: list[Segment]) -> Iterator[list[Segment]]:
    if group and not group[-1].sealed:
        behind = sum(segment.size for segment in group)
        while group and group[0].size > (behind := behind - group[0].size):
            group = group[1:]
    if len(group) > 1:
        yield group
