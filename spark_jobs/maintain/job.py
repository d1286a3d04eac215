"""``maintain``: the archive kept tidy. Files that nobody needs are deleted, small slices are joined.

    plan     what may go, and why the rest stays; which slices fit together            (driver, no JVM)
    delete   rows first, in one commit, then the files                                 (driver)
    merge    slices joined, read back and judged                                       (workers, or driver if small)
    swap     `batches`, `validations`, then one commit: slices out, joined segments in (driver)
    tell     `log_actions`, and the ledger where a compacted segment's files are gone

Without ``apply`` only the plan is made. Files of tables are merged and removed by ``optimize``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from logcore.logs.model.findings import found
from logcore.segments.filenames import segment_file_name
from spark_jobs.contracts import JobReport, LogChange, MaintainConfig
from spark_jobs.lake.delta import commits
from spark_jobs.lake.delta.commits import Standing, WrittenFile
from spark_jobs.lake.delta.tables import VALIDATIONS, read_rows
from spark_jobs.lake.errors import UsageError
from spark_jobs.lake.ledger import finding_rows
from spark_jobs.lake.ledger.finding_rows import PlacedFinding
from spark_jobs.lake.segments import archive, removals, upkeep_actions
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.setup.policies import read_policies
from spark_jobs.lake.store import storage
from spark_jobs.maintain import archive_removal
from spark_jobs.maintain.archive_removal import Clocks, LakeFile, RemovalPlan
from spark_jobs.maintain.mergeable_slices import Slices, mergeable
from spark_jobs.tasks.merged_segment import SegmentMergeTask, merge_slices
from spark_jobs.tasks.segment_pass import RULES_VERSION

if TYPE_CHECKING:
    from spark_jobs.tasks.executor import Executor

LEAST_ORPHAN_MS = 7 * 86_400_000
IN_PROCESS_BYTES = 64 << 20
"""Less than this is merged by the driver itself, before a JVM would be up."""

LISTED_FILES = 1000
"""At most so many files of a kind are named in a report, oldest first; all are counted."""

COUNTS = ("batches", "records", "control_records", "file_bytes", "valid_bytes", "findings")


@dataclass(frozen=True, slots=True)
class MaintainPlan:
    """What there is to do; printed, it is the dry run."""

    removal: RemovalPlan
    merges: tuple[Slices, ...]
    untold: tuple[Mapping[str, Any], ...]
    """Rows of ``log_actions`` that an earlier run did not get to write."""
    unmarked: tuple[str, ...]
    """Logs whose ledger does not say yet what left the archive."""
    stale: tuple[str, ...]
    """Merged slices without files, whose rows of ``validations`` and ``batches`` nobody asks for any more."""
    versions: Mapping[str, int | None]
    """Of the logs in ``segments``, read before them."""
    standing: Mapping[str, int | None]
    """Of the tables that validation writes."""
    validated: Mapping[str, tuple[str, ...]]
    """Ids by log that are validated and in no row of ``segments``."""
    clocks: Clocks
    applied: bool

    @property
    def is_empty(self) -> bool:
        """Nothing to delete, to merge or to tell."""
        return not (self.removal or self.merges or self.untold or self.unmarked or self.stale)

    @property
    def needs_spark(self) -> bool:
        """Whether more is to be merged than the driver does itself."""
        return self.applied and sum(slices.size for slices in self.merges) > IN_PROCESS_BYTES

    def as_dict(self) -> dict[str, Any]:
        """The lists as plain values."""
        return {
            "deletable": _listed(self.removal.files) | {"segments": len(self.removal.segments)},
            "kept": {
                "count": len(self.removal.kept),
                "segments": [asdict(each) for each in self.removal.kept[:LISTED_FILES]],
            },
            "orphans": _listed(self.removal.orphans),
            "mergeable": {
                "count": len(self.merges),
                "bytes": sum(slices.size for slices in self.merges),
                "logs": [
                    {
                        "log": slices.log,
                        "base_offsets": [segment.base_offset for segment in slices.segments],
                        "size": slices.size,
                    }
                    for slices in self.merges[:LISTED_FILES]
                ],
            },
            "untold": len(self.untold),
        }


def plan(config: MaintainConfig) -> MaintainPlan:
    """Look at the archive's files, then at the tables.

    Raises:
        UsageError: the policies can't be read, or ages below which a run or a reader could lose files.
    """
    lake = config.lake
    policies = read_policies(config.policies)
    clocks = _clocks(config)
    # Before anything is read: what another run commits from here on refuses this plan.
    standing = commits.table_versions(lake, "validations", "batches")
    files = archive_removal.archive_files(lake)
    logs = sorted(archive.read_logs(lake))
    versions = archive.planned_versions(lake, logs)
    segments = archive.read_segments(lake, live=False)
    ids = {segment.segment_id for segment in segments}
    validations = {row["segment_id"]: row for row in read_rows(lake, "validations").to_pylist()}
    elsewhere: dict[str, list[str]] = {}
    for identity, row in validations.items():
        if identity not in ids:
            elsewhere.setdefault(row["log"], []).append(identity)
    live = [s for s in segments if s.retired_ms is None]
    merges = tuple(mergeable(live, validations, policies))
    unfinished = removals.unfinished(lake)
    untold = {each.replacement.segment_id for each in unfinished.actions if each.replacement is not None}
    removal = archive_removal.plan_removal(lake, segments, files, policies, clocks, untold)
    return MaintainPlan(
        removal=replace(removal, orphans=tuple(f for f in removal.orphans if not _is_taken_up(f, merges))),
        merges=merges,
        untold=tuple(upkeep_actions.untold(lake, segments)),
        unmarked=unfinished.ledgers,
        stale=tuple(_stale(lake, segments, validations)),
        versions=versions | {s.log: versions.get(s.log) for s in segments},
        standing=standing,
        validated={log: tuple(sorted(found_here)) for log, found_here in elsewhere.items()},
        clocks=clocks,
        applied=config.apply,
    )


def apply(plan: MaintainPlan, config: MaintainConfig, executor: Executor | None = None) -> JobReport:
    """Delete, merge, tell; without ``config.apply`` only report the plan.

    Raises:
        ConcurrentChange: a log was touched since the plan.
    """
    report = JobReport(config.JOB, config.run_id, config.lake, plan=plan.as_dict(), metrics={"applied": False})
    if not config.apply:
        return report
    lake, run_id = config.lake, config.run_id
    removals.mark_ledgers(lake, run_id, plan.unmarked)  # a border through a batch is counted in the batch itself
    upkeep_actions.tell(lake, run_id, plan.untold)
    # Of what was never whole there is nothing to tell.
    going = [(file.path, file.size) for file in plan.removal.orphans if not archive_removal.is_unfinished(file.path)]
    upkeep_actions.tell(lake, run_id, upkeep_actions.orphans(lake, going, config.as_of_ms))
    removed, failed = archive_removal.remove(lake, plan.removal, plan.versions, run_id, plan.clocks)
    moved = {segment.log for segment in plan.removal.segments}
    versions = {log: (version or 0) + 1 if log in moved else version for log, version in plan.versions.items()}
    done, placed = _merge(plan, config, executor, versions)
    segments = archive.read_segments(lake, live=False)
    upkeep_actions.tell(lake, run_id, upkeep_actions.untold(lake, segments))
    removals.mark_ledgers(lake, run_id, removals.unfinished(lake).ledgers)
    validated = {row["segment_id"]: row for row in read_rows(lake, "validations", ["segment_id"]).to_pylist()}
    _forget(config, list(_stale(lake, segments, validated)))
    placed += [_not_deleted(file, why) for file, why in failed]
    return replace(
        report,
        changed=tuple(_changes(plan.removal, done)),
        findings=tuple(finding_rows.record(lake, placed, run_id, config.as_of_ms)),
        used_spark=executor is not None,
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


def _clocks(config: MaintainConfig) -> Clocks:
    longest, orphan = config.longest_run_ms, config.orphan_after_ms
    if config.force:
        longest = 0
    elif orphan < max(LEAST_ORPHAN_MS, 2 * longest) or longest <= 0:
        raise UsageError(
            f"maintain: files that no row names would be deleted after {orphan} ms, with runs of at most {longest} ms. "
            f"The floor is twice the longest run and at least {LEAST_ORPHAN_MS} ms, seven days: such a file may be a "
            "copy that waits for its commit. Ask for more, or say `force` if nothing else reads or writes this lake."
        )
    return Clocks(config.as_of_ms, storage.clock_ms(config.lake), longest, orphan)


def _is_taken_up(file: LakeFile, merges: Iterable[Slices]) -> bool:
    """Whether an orphan may be what an earlier run joined and did not get to swap in: this one may use it."""
    return any(
        file.path.startswith(f"{archive_removal.ARCHIVE}/{slices.log}/")
        and file.path.endswith(segment_file_name(slices.segments[0].base_offset))
        for slices in merges
    )


def _stale(lake: str, segments: Iterable[Segment], validations: Mapping[str, Any]) -> Iterator[str]:
    """Merged slices whose files are gone, and that still have rows of ``validations`` or ``batches``."""
    gone = [s.segment_id for s in segments if s.retired_because == archive.MERGED and s.deleted_ms is not None]
    if gone:
        where: list[tuple[str, str, object]] = [("segment_id", "in", gone)]
        noted = set(read_rows(lake, "batches", ["segment_id"], where)["segment_id"].to_pylist())
        yield from (identity for identity in gone if identity in noted or identity in validations)


def _forget(config: MaintainConfig, ids: Sequence[str]) -> None:
    """Take the rows of merged slices away; first those that mean validated, so that these never stand alone."""
    if ids:
        for name in ("validations", "batches"):
            commits.delete(config.lake, name, ("segment_id", ids), config.run_id)


# --- merging ---------------------------------------------------------------------------------------------------------


def _merge(
    plan: MaintainPlan, config: MaintainConfig, executor: Executor | None, versions: Mapping[str, int | None]
) -> tuple[list[tuple[Slices, Segment]], list[PlacedFinding]]:
    """Join, make their rows, swap; what was joined to what, and what could not be."""
    tasks = [asdict(_task(plan, config.lake, slices)) for slices in plan.merges]
    if executor is None:
        results = [merge_slices(task) for task in tasks]
    else:
        results = executor.run(tasks, merge_slices, [slices.size for slices in plan.merges])
    done: list[tuple[Slices, Segment, Mapping[str, Any] | None]] = []
    placed: list[PlacedFinding] = []
    for slices, result in zip(plan.merges, results, strict=True):
        if result["error"] is None:
            done.append((slices, Segment(**result["segment"]), result["judged"]))
        else:
            placed.append(_not_merged(slices, result["error"]))
    if done:
        _validated(plan, config, done)
        archive.swap_segments(
            config.lake,
            [segment for slices, _, _ in done for segment in slices.segments],
            [merged for _, merged, _ in done],
            versions,
            config.run_id,
            config.as_of_ms,
            archive.MERGED,
            {segment.segment_id: merged.segment_id for slices, merged, _ in done for segment in slices.segments},
        )
    return [(slices, merged) for slices, merged, _ in done], placed


def _task(plan: MaintainPlan, lake: str, slices: Slices) -> SegmentMergeTask:
    return SegmentMergeTask(
        lake,
        slices.segments,
        slices.total("batches"),
        slices.total("records"),
        slices.total("control_records"),
        plan.validated.get(slices.log, ()),
    )


def _validated(
    plan: MaintainPlan, config: MaintainConfig, done: Sequence[tuple[Slices, Segment, Mapping[str, Any] | None]]
) -> None:
    """Rows of ``batches``, then of ``validations``, of the joined segments that have none."""
    standing = Standing(plan.standing)
    new = [(slices, merged, judged) for slices, merged, judged in done if judged is not None]
    ids = [merged.segment_id for _, merged, _ in new]
    files = [WrittenFile(**file) for _, _, judged in new for file in judged["batches"]]
    where: list[tuple[str, str, object]] = [("segment_id", "in", ids)]
    begun = set(read_rows(config.lake, "batches", ["segment_id"], where)["segment_id"].to_pylist()) if ids else set()
    if begun:
        commits.delete(config.lake, "batches", ("segment_id", sorted(begun)), config.run_id, standing)
    commits.add_files(config.lake, "batches", files, config.run_id, standing=standing)
    rows = [_validation(slices, merged, judged) for slices, merged, judged in new]
    commits.append(
        config.lake,
        "validations",
        pa.Table.from_pylist(rows, schema=VALIDATIONS),
        config.run_id,
        standing=standing,
    )


def _validation(slices: Slices, merged: Segment, judged: Mapping[str, Any]) -> dict[str, Any]:
    row = dict(slices.validations[0]) | {count: slices.total(count) for count in COUNTS}
    return row | {
        "segment_id": merged.segment_id,
        "rules_version": RULES_VERSION,
        "split_points": judged["split_points"],
        "digest": merged.digest,
        # The first of them: what waits since then for being published waits no longer by being joined.
        "as_of_ms": min(each["as_of_ms"] for each in slices.validations),
    }


# --- what is said ----------------------------------------------------------------------------------------------------


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


def _listed(files: tuple[LakeFile, ...]) -> dict[str, Any]:
    return {
        "count": len(files),
        "bytes": sum(file.size for file in files),
        "files": [asdict(file) for file in files[:LISTED_FILES]],
    }
