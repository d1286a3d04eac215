"""``ingest``: archives what is new at the end of each log, from read-only sources.

    plan    read the sources, decide by `logcore.logs.growth.growth` what to archive of each log (driver, no JVM)
    copy    one task a source segment: stat, read, stat, cut, digest, rename              (workers)
            in an intake the same task validates it and writes its rows, see `intake_tasks`
    commit  `findings`, then `segments`, then `logs`                                      (driver)

A file is visible in the archive only under its final name, and its segment only with its row. Growth is contiguous:
nothing of a log is committed after a segment that could not be copied, and the next run continues there. Cut tails and
offsets found later are committed together with the retirement of the segments that they replace. Findings are committed
first, because no later run detects the same changes again.

Small reads of sources on object stores, kept in the operator's home for the next plan.

``<home>/source_reads/<lake>.arrow`` is a cache: a plan looks at the checkpoint files and at one batch header of each
log, and an object with the same ETag has the same bytes. So a plan that finds nothing new reads no object. The next
plan writes the file again if it is lost or damaged. Only this user can read the folder.

What one round of a large load takes in: a part of a plan that is large enough for good speed, and not larger.

A round is ingested, validated and published before the next one begins. What kills a run, or exceeds a limit of the
machine, so costs one round. A log may be taken in several rounds, segment by segment from its end, as if it had grown
between them. The tables at the end are the same.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from logcore.errors import LogError
from logcore.logs.growth.copies import CopyComparison
from logcore.logs.model.findings import Finding, Severity
from logcore.logs.model.log_selection import LogSelection
from logcore.logs.rules import RULES, Persistence
from logcore.ranges import Range
from logcore.reading.chosen_logs import nothing_chosen
from logcore.reading.compared_copies import ComparedCopies, not_decided, topic_ids_of
from logcore.segments.filenames import DirectoryKind, TopicPartition
from logcore.storage.broker_state import is_moved_by_its_broker
from logcore.storage.discovery import Discovery, HeaderReader, SourceLog, discover, source_path
from logcore.storage.objects.addresses import AddressError, is_object
from logcore.storage.objects.remembered_reads import MOST_HEADER_BYTES, RememberedRead, RememberedReads
from logcore.texts import sentences
from spark_jobs.contracts import IngestConfig, JobReport
from spark_jobs.engine.executor import Executor, run_tasks
from spark_jobs.engine.task_groups import SHARED_BYTES, SHARED_TASKS, shared
from spark_jobs.errors import ConcurrentChange, NothingChosen, UsageError
from spark_jobs.groups import by_key
from spark_jobs.ingest import intake_tasks, late_segments, remote_ranges, segment_slices, source_changes
from spark_jobs.ingest.copied_log import CopiedLog, copied_log
from spark_jobs.ingest.intake_results import IntakeExecutor
from spark_jobs.ingest.left_copies import (
    WhyGone,
    compared_copy,
    gone_sources,
    left_copy,
    left_directories,
    refused_copy,
    unread_copy,
    vanished_logs,
)
from spark_jobs.ingest.log_growth import IngestLogPlan, LakeSnapshot, of_log, remote_task
from spark_jobs.ingest.segment_copy import CopyResult, CopyTask, copy_segment, nothing_readable
from spark_jobs.ingest.segment_slices import Swap
from spark_jobs.lake.ledger import finding_rows
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import LogRow, Segment
from spark_jobs.lake.setup import registry
from spark_jobs.lake.setup.identity import claim, cluster_of_logs, read_identity
from spark_jobs.lake.store import local_copies, storage
from spark_jobs.lake.store.referenced_bytes import is_gone
from spark_jobs.outlines import IngestOutline
from spark_jobs.placed_finding import PlacedFinding


@dataclass(frozen=True, slots=True)
class Left:
    """What a round leaves to the next ones."""

    copies: int = 0
    nbytes: int = 0
    topic_partitions: tuple[str, ...] = ()
    """Of which there is something left."""


NOTHING_LEFT = Left()


@dataclass(slots=True)
class _Room:
    """What still fits into a round. Small copies share a task, as they do when they run."""

    nbytes: float
    tasks: float
    _shared_bytes: int = 0
    _shared_copies: int = 0
    _is_new: bool = True
    _is_full: bool = False

    def take(self, *copies: CopyTask) -> bool:
        """Take these copies together, if they fit.

        What comes first in a round always fits. After something that did not fit nothing fits.
        """
        nbytes = sum(task.bytes_to_read for task in copies)
        joins = nbytes <= self._shared_bytes and len(copies) <= self._shared_copies
        started = 0 if joins else len(shared(len(copies), [task.bytes_to_read for task in copies]))
        self._is_full |= not self._is_new and (nbytes > self.nbytes or started > self.tasks)
        if self._is_full:
            return False
        self._is_new = False
        self.nbytes -= nbytes
        self.tasks -= started
        if started:
            self._shared_bytes, self._shared_copies = SHARED_BYTES, SHARED_TASKS
        self._shared_bytes -= nbytes
        self._shared_copies -= len(copies)
        return True


def first_round(
    plans: Sequence[IngestLogPlan], max_bytes: int | None, max_tasks: int | None
) -> tuple[list[IngestLogPlan], Left]:
    """Return the plans of the first round and what it leaves.

    Logs are taken in their order. Segments of a log that are swapped are taken together. Plans without copies are all
    taken. Copies for offsets that were left in the remote tier come last: those that fail must not hinder growth.

    Args:
        plans: By log.
        max_bytes: Bytes that a round reads; None: no limit. At least one copy is taken.
        max_tasks: Tasks that a round starts; small copies share one. None: no limit.
    """
    room = _Room(math.inf if max_bytes is None else max_bytes, math.inf if max_tasks is None else max_tasks)
    taken: list[IngestLogPlan] = []
    left: list[CopyTask] = []
    unfinished: list[str] = []
    begun: list[tuple[IngestLogPlan, list[CopyTask], bool, list[CopyTask]]] = []
    for plan in plans:
        swapped = [part.task for swap in plan.swaps for part in swap.parts]
        fits = not swapped or room.take(*swapped)
        kept = list(itertools.takewhile(room.take, plan.tasks)) if fits else []
        begun.append((plan, swapped, fits, kept))
    for plan, swapped, fits, kept in begun:
        remote = list(itertools.takewhile(room.take, plan.remote)) if fits else []
        rest = (*plan.remote[len(remote) :], *plan.tasks[len(kept) :])
        if not fits:
            left += swapped
        left += rest
        if fits and not rest:
            taken.append(plan)
            continue
        unfinished.append(plan.observed.topic_partition)
        if kept or remote or (fits and swapped):
            # The high watermark is above the end of this round: that is no loss while more follows.
            taken.append(replace(plan, remote=tuple(remote), tasks=tuple(kept), waits=True))
    return taken, Left(len(left), sum(task.bytes_to_read for task in left), tuple(unfinished))


FOLDER = "source_reads"
_FIELDS: list[pa.Field[Any]] = [
    pa.field("url", pa.string()),
    pa.field("etag", pa.string()),
    pa.field("start", pa.int64()),
    pa.field("end", pa.int64()),
    pa.field("content", pa.binary()),
]
_SCHEMA = pa.schema(_FIELDS)


def recall_reads(lake: str) -> RememberedReads:
    """Return what earlier plans of this lake read; nothing if the file is missing or damaged."""
    try:
        content = storage.read(registry.home_file(FOLDER, lake, ".arrow"))
        with pa.ipc.open_stream(content) as stream:
            if stream.schema != _SCHEMA:
                return RememberedReads()
            rows = stream.read_all().to_pylist()
    except (OSError, pa.ArrowException, ValueError):
        return RememberedReads()
    return RememberedReads.of(RememberedRead(**row) for row in rows)


def keep_reads(lake: str, reads: RememberedReads) -> None:
    """Keep the reads that a plan used, if some of them are new. A home that cannot be written keeps none."""
    if not reads.is_changed:
        return
    rows = [{name: getattr(read, name) for name in _SCHEMA.names} for read in reads]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA))
    path = registry.home_file(FOLDER, lake, ".arrow")
    with suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        storage.put(path, sink.getvalue().to_pybytes())


@dataclass(frozen=True, slots=True)
class IngestPlan:
    """The work to do. The dry run prints it."""

    logs: tuple[IngestLogPlan, ...]
    findings: tuple[PlacedFinding, ...]
    """Findings that no earlier run recorded."""
    cluster: str | None
    of_paths: tuple[Finding, ...] = ()
    """All current findings about the source paths, new or not, including copies that are ignored."""
    left: Left = NOTHING_LEFT
    """What a later round of the same run takes."""
    remembered: RememberedReads | None = None
    """Small reads of sources on object stores, for the next plan."""
    is_unclaimed: bool = False
    """Whether the lake lacks its ``lake.json``, for instance because it was lost."""

    @property
    def task_bytes(self) -> int | None:
        """Bytes that the tasks read; None: there are no tasks."""
        copies = [copy for log in self.logs for copy in log.copies]
        return sum(copy.bytes_to_read for copy in copies) if copies else None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to copy and nothing to record."""
        has_work = any(log.moves_segments or log.is_changed for log in self.logs)
        return not (has_work or self.findings or self.is_unclaimed)

    @property
    def outline(self) -> IngestOutline:
        """What a report and a dry run say of it."""
        return IngestOutline(
            self.cluster,
            tuple(log.outline for log in self.logs if log.moves_segments or log.is_changed),
            tuple(f"{placed.finding.rule}: {placed.finding.message}" for placed in self.findings),
            self.of_paths,
        )


def plan(config: IngestConfig) -> IngestPlan:
    """Read the sources and decide what to archive of each log.

    Raises:
        LakeRefused: The lake belongs to another cluster.
        NothingChosen: No log of the sources or of the lake is chosen.
        UsageError: An option is invalid or not built yet, or the policies cannot be read.
    """
    _check(config)
    policies = config.policies
    remembered = recall_reads(config.lake) if any(map(is_object, (*config.sources, *config.fill_from))) else None
    discovery = _discover(config, config.sources, remembered)
    segments = archive.read_segments(config.lake, live=False, joined=False)
    logs, of_remote = remote_ranges.with_remote(
        discovery.logs, config.remote or policies.lake.remote, _selection(config), segments
    )
    local = {log.directory: log for log in discovery.logs}
    placed = [PlacedFinding(finding) for finding in (*discovery.findings, *of_remote)]
    left_alone: list[PlacedFinding] = []
    left_before: frozenset[tuple[str | None, str]] | None = None
    sources = [log for log in logs if log.kind is DirectoryKind.LIVE and _is_chosen(config, log)]
    cluster = cluster_of_logs(config.lake, sources, config.cluster) if sources else config.cluster
    held = _held(config, cluster, segments, remembered)
    unmatched = _unmatched(config, logs, held)
    newest = {row.topic_partition: row for row in sorted(held.rows.values(), key=lambda row: row.incarnation)}
    plans: list[IngestLogPlan] = []
    taken: dict[str, SourceLog] = {}
    continues: dict[str, tuple[LogRow, SourceLog]] = {}
    copies = ComparedCopies(discovery.logs, discovery.findings)
    names = {row.topic_id: row.topic for row in newest.values() if row.topic_id is not None}
    live = [log for log in logs if log.kind is DirectoryKind.LIVE]
    renamed = copies.under_other_names(live, names)
    # A kept copy is information, unless the lake has published it under its name.
    has_rows = {log.directory for log in live if str(log.topic_partition) in newest}
    left_alone += [
        PlacedFinding(replace(finding, severity=Severity.WARNING) if directory in has_rows else finding)
        for directory, finding in renamed.items()
        if finding not in discovery.findings
    ]
    sources = [log for log in sources if log.directory not in renamed]
    choices = _Choices(copies, newest, {log.directory for log in sources})
    left_alone += [PlacedFinding(finding) for finding in topic_ids_of(sources)]
    for source in sorted(sources, key=choices.order):
        name = str(source.topic_partition)
        known = newest.get(name)
        compared = choices.of(source)
        why = choices.why_not(source)
        is_moved = known is not None and known.source != source.directory
        by_broker = known is not None and is_moved and is_moved_by_its_broker(known.source, source.directory)
        kept = taken.get(name)
        if kept is not None or (is_moved and not config.move_source and not by_broker):
            moved, said = (None, []) if known is None else source_changes.plan_move(source, known, held)
            refused = said if moved is None else []
            if left_before is None and known is not None:
                left_before = left_directories(config.lake)
            is_left = known is not None and (known.log, source.directory) in (left_before or ())
            lost_here = partial(_lost_here, source, known, held, copies)
            if kept is not None:
                lake, fills = config.lake, lost_here()
                left_alone.append(compared_copy(copies, kept, source, known, refused, lake, fills, is_left))
            elif known is not None and not refused and is_gone(known.source):
                continues.setdefault(name, (known, source))
            elif known is not None:
                is_archived = partial(source_changes.is_archived, source, known, held)
                left_alone.append(
                    unread_copy(known, source, refused, lost_here, is_archived if is_left else lambda: False)
                )
            continue
        if compared is not None and compared.undecided is not None:
            left_alone.append(replace(left_copy(source, source), finding=not_decided(compared)))
            continue
        if known is not None and why:
            left_alone.append(left_copy(known, source, why))  # the better copy was refused
            continue
        if known is not None and is_moved:
            log_plan, found_here = source_changes.plan_move(source, known, held)
            if log_plan is None:
                left_alone.append(refused_copy(known, source, found_here))
                continue
        else:
            log_plan, found_here = source_changes.plan_log(source, known, held)
            if known is not None and remote_ranges.is_held_up(source, known):
                # Its local part grows on, as if remote storage was not given.
                alone = source_changes.plan_log(local[source.directory], known, held)
                if alone[0].tasks and alone[0].observed.stopped is None:
                    log_plan, found_here = alone
        taken[name] = source
        plans.append(log_plan)
        placed.extend(found_here)
    there = {(str(log.topic_partition), log.directory) for log in sources if str(log.topic_partition) not in continues}
    has_others = any(name in newest and newest[name].source != directory for name, directory in there)
    left_alone += gone_sources(config, continues, has_others)
    chosen = _selection(config)
    held_here = [row for row in newest.values() if chosen.matches(row.topic, row.partition)]
    left_alone += vanished_logs(held_here, discovery.logs, policies)
    plans, left_out = _with_remote_ranges(plans, taken, held)
    placed.extend(left_out)
    whole, undecided = _with_fills(plans, taken, held)
    left_alone += undecided
    # What a log says of its own file is more than what its source says.
    of_logs = {(each.finding.rule, each.finding.file) for each in placed if each.log is not None}
    placed = [each for each in placed if each.log is not None or (each.finding.rule, each.finding.file) not in of_logs]
    # No later command looks for what counts in one run only.
    one_run = {rule for rule, known in RULES.items() if known.persistence is Persistence.ONE_RUN}
    of_now = (p.finding for p in (*placed, *left_alone) if p.log is None or p.finding.rule in one_run)
    of_paths = tuple(dict.fromkeys((*unmatched, *of_now)))
    plans, left = first_round(whole, _round_bytes(config, whole), config.max_tasks)
    not_begun = {log.observed.log for log in whole} - {log.observed.log for log in plans}
    placed = [finding for finding in placed if finding.log not in not_begun]
    versions = archive.planned_versions(config.lake, [p.observed.log for p in plans if p.moves_segments])
    _check_unmoved(config.lake, held, list(versions))
    plans = [replace(p, version=versions.get(p.observed.log)) for p in plans]
    unseen = finding_rows.unseen(config.lake, [*placed, *left_alone])
    if remembered is not None:
        keep_reads(config.lake, remembered)
    is_unclaimed = bool(plans) and read_identity(config.lake) is None
    return IngestPlan(tuple(plans), tuple(unseen), cluster, of_paths, left, remembered, is_unclaimed)


def apply(plan: IngestPlan, config: IngestConfig, executor: Executor | None) -> JobReport[IngestOutline]:
    """Copy, then commit.

    Raises:
        ConcurrentChange: Another run changed a log since the plan. Nothing of this run is visible then.
    """
    claim(config.lake, plan.cluster)
    results = iter(_copied(plan, config, executor))
    done = [copied_log(log, list(itertools.islice(results, len(log.copies)))) for log in plan.logs]
    _check_unpublished(config.lake, done)
    placed = [*plan.findings, *(finding for log in done for finding in log.placed)]
    new = finding_rows.record(config.lake, placed, config.run_id, config.as_of_ms)
    _commit_segments(plan, done, config)
    if plan.remembered is not None:
        _keep_first_looks(plan.remembered, done)
        keep_reads(config.lake, plan.remembered)
    archive.commit_logs(config.lake, [row for log in done for row in log.rows], config.run_id)
    added = [segment for log in done for segment in log.added]
    return JobReport.of(
        config,
        plan.outline,
        changed=tuple(log.change for log in done if log.rows or log.added),
        findings=tuple(new),
        metrics={
            "segments": len(added),
            "bytes": sum(segment.size for segment in added),
            "logs": len(plan.logs),
            "stopped_logs": sum(log.observed.stopped is not None for log in plan.logs),
            "left_copies": plan.left.copies,
            "left_bytes": plan.left.nbytes,
        },
        left=_left(plan, done),
    )


def _left(plan: IngestPlan, done: Sequence[CopiedLog]) -> tuple[str, ...]:
    """Topic partitions of which a later round can take more: not those of which this round could not copy all."""
    stuck = {log.row.topic_partition for log in done if log.is_stuck}
    return tuple(name for name in plan.left.topic_partitions if name not in stuck)


def _copied(plan: IngestPlan, config: IngestConfig, executor: Executor | None) -> Sequence[CopyResult]:
    local_copies.clear(config.lake)
    if isinstance(executor, IntakeExecutor):
        return intake_tasks.taken(config, plan.logs, executor)
    tasks = [task for log in plan.logs for task in log.copies]
    return run_tasks(executor, copy_segment, tasks, [task.bytes_to_read for task in tasks])


def _keep_first_looks(remembered: RememberedReads, done: Sequence[CopiedLog]) -> None:
    """Keep what the next plan looks at first: the header of each log's last batch, and the one after it."""
    for log in done:
        for read in next(filter(None, reversed(log.last_headers)), ()):
            remembered.keep(read)
        if log.added and log.plan.tasks:
            task, end = log.plan.tasks[-1], log.added[-1].origin_position + log.added[-1].size
            if task.etag and task.source == log.added[-1].origin_file and end < task.size:
                with suppress(LogError):  # the next plan meets the error again
                    HeaderReader(remembered).header_at(task.file, end)
                    if task.size - end <= MOST_HEADER_BYTES:  # a longer end has keys and values
                        nothing_readable(replace(task, start=end, first_offset=log.row.next_offset), remembered)


def _round_bytes(config: IngestConfig, plans: Sequence[IngestLogPlan]) -> int | None:
    """Bytes that a round reads. What it registers on an object store must fit into its local copies.

    Otherwise validation and publishing would download it again.
    """
    at_source = config.mode == "reference" and any(is_object(task.source) for log in plans for task in log.copies)
    if config.max_bytes is None or not at_source or not local_copies.keeps_registered():
        return config.max_bytes
    return min(config.max_bytes, local_copies.ROUND_BYTES)


def _discover(config: IngestConfig, paths: Sequence[str], remembered: RememberedReads | None) -> Discovery:
    # A source is identified by its absolute path: another spelling of the same directory is not a second source.
    why_gone = WhyGone(config.lake, config.policies)
    try:
        return discover([source_path(path) for path in paths], remembered, why_gone=why_gone.of)
    except AddressError as error:
        raise UsageError(str(error)) from error


def _held(
    config: IngestConfig, cluster: str | None, read: Sequence[Segment], remembered: RememberedReads | None
) -> LakeSnapshot:
    segments = by_key(read, lambda segment: segment.log)
    tails = archive.tails_of(segment for of_log in segments.values() for segment in of_log)
    rows = archive.read_logs(config.lake)
    holes = late_segments.holes_of(config.lake, rows, segments)
    damaged = late_segments.damaged_segments(config.lake)
    return LakeSnapshot(config, cluster, rows, segments, tails, holes, damaged, remembered)


def _check_unmoved(lake: str, held: LakeSnapshot, logs: Sequence[str]) -> None:
    """Check that no commit was made between reading the segments and reading the versions that guard the plan.

    Raises:
        ConcurrentChange: A commit was made in between.
    """
    if not logs:
        return
    now = by_key(archive.read_segments(lake, logs, live=False, joined=False), lambda segment: segment.log)
    for log in logs:
        if sorted(map(repr, now.get(log, ()))) != sorted(map(repr, held.segments.get(log, ()))):
            raise ConcurrentChange(f"The segments of {log} were changed while its growth was planned.")


@dataclass(frozen=True, slots=True)
class _Choices:
    """Which copy of a log is its source. A log that is known keeps its source, as long as that is there."""

    copies: ComparedCopies
    known: Mapping[str, LogRow]
    present: Collection[str]

    def of(self, log: SourceLog) -> CopyComparison | None:
        """The comparison of a log's copies; None if nothing is to be chosen."""
        row = self.known.get(str(log.topic_partition))
        return self.copies.of(log.topic_partition) if row is None or row.source not in self.present else None

    def why_not(self, log: SourceLog) -> str:
        """Why another copy is used; empty for the copy that is."""
        compared = self.of(log)
        mine = (
            [] if compared is None else [each for each in compared.others if each.copy.log.directory == log.directory]
        )
        return "; ".join(map(str, mine))

    def order(self, log: SourceLog) -> tuple[str, bool, bool]:
        """Sort key of sources: the current source of a log comes first, or the copy with its history."""
        row = self.known.get(str(log.topic_partition))
        return str(log.topic_partition), row is None or row.source != log.directory, bool(self.why_not(log))


def _check(config: IngestConfig) -> None:
    if config.mode not in ("copy", "reference"):
        raise UsageError(f"mode {config.mode!r}: use copy or reference.")
    if config.high_watermark not in ("checkpoint", "log-end") and not config.high_watermark.isdecimal():
        raise UsageError(f"high watermark {config.high_watermark!r}: use checkpoint, log-end or an offset.")


def _is_chosen(config: IngestConfig, log: SourceLog) -> bool:
    return _selection(config).matches(log.topic_partition.topic, log.topic_partition.partition)


def _unmatched(config: IngestConfig, logs: Sequence[SourceLog], held: LakeSnapshot) -> tuple[Finding, ...]:
    """Findings about options that match nothing, neither in the sources nor in the lake.

    Raises:
        NothingChosen: No log is chosen.
    """
    chosen, names = _selection(config), {log.topic_partition for log in logs}
    names |= {TopicPartition(row.topic, row.partition) for row in held.rows.values()}
    unmatched = tuple(nothing_chosen(chosen, names))
    if unmatched and not any(chosen.matches(name.topic, name.partition) for name in names):
        raise NothingChosen(sentences(finding.message for finding in unmatched))
    return unmatched


def _selection(config: IngestConfig) -> LogSelection:
    return LogSelection(config.topics, config.partitions, config.logs)


def _with_remote_ranges(
    plans: Sequence[IngestLogPlan], taken: Mapping[str, SourceLog], held: LakeSnapshot
) -> tuple[list[IngestLogPlan], list[PlacedFinding]]:
    """Add to the plans what remote storage has of offsets that were left in the remote tier.

    Returns:
        The plans, and findings about offsets that stay there.
    """
    whole, placed = [], []
    for log in plans:
        row, source = log.observed, taken[log.observed.topic_partition]
        is_whole = log.known is not None and log.cut is None and log.earlier is None and row.stopped is None
        if is_whole and source.local_start_offset is not None:
            parts, said = remote_ranges.remote_parts(source, row, held.feeding(row.log), held.cleaned(row.log))
            placed += [of_log(row, finding) for finding in said]
            log = replace(log, remote=tuple(remote_task(held.config, row, part) for part in parts))
        whole.append(log)
    return whole, placed


def _with_fills(
    plans: Sequence[IngestLogPlan], taken: Mapping[str, SourceLog], held: LakeSnapshot
) -> tuple[list[IngestLogPlan], list[PlacedFinding]]:
    """Add to the plans what was found for gaps of their logs.

    Returns:
        The plans, and findings about copies that differ in a gap.
    """
    config, harmed = held.config, held.holes.keys() | held.damaged.keys()
    harmed |= {
        log.observed.log
        for log in plans
        if late_segments.gone_at_source(taken[log.observed.topic_partition], held.segments.get(log.observed.log, ()))
    }
    holed = [log for log in plans if log.observed.log in harmed and log.cut is None and log.earlier is None]
    if not holed:
        return list(plans), []
    copies: dict[str, list[late_segments.Copy]] = {}
    for log in holed:
        if log.observed.stopped is None:  # a stopped log may not match its source any more
            own = late_segments.Copy(taken[log.observed.topic_partition], is_own=True)
            copies.setdefault(log.observed.log, []).append(own)
    seen = _discover(config, config.fill_from, held.remembered) if config.fill_from else Discovery((), ())
    named, undecided = seen.logs, list[PlacedFinding]()
    compared = ComparedCopies(named, seen.findings)
    renamed = compared.under_other_names(named)
    for found_log in named:
        if found_log.directory in renamed:
            undecided.append(PlacedFinding(renamed[found_log.directory]))
            continue
        for log in holed:
            row = log.observed
            is_it = str(found_log.topic_partition) == row.topic_partition and found_log.directory != row.source
            if is_it and found_log.topic_id in (row.topic_id, None):
                copies.setdefault(row.log, []).append(late_segments.Copy(found_log, is_own=False))
    fills: dict[str, Swap | None] = {}
    for log in holed:
        row = log.observed
        fills[row.log], findings = late_segments.plan_fill(
            config.lake,
            row,
            held.segments.get(row.log, ()),
            held.holes.get(row.log, ()),
            copies.get(row.log, ()),
            compared,
            in_place=config.mode == "reference",
            damaged=held.damaged.get(row.log, ()),
            remembered=held.remembered,
        )
        undecided += [of_log(row, finding) for finding in findings]
    return [replace(log, fill=fills.get(log.observed.log)) for log in plans], undecided


def _lost_here(copy: SourceLog, known: LogRow | None, held: LakeSnapshot, copies: ComparedCopies) -> list[Range]:
    """Offsets that the lake lost, and that another copy has."""
    holes = () if known is None else held.holes.get(known.log, ())
    if known is None or not holes:
        return []
    named, segments = [late_segments.Copy(copy, is_own=False)], held.segments.get(known.log, ())
    fill, _ = late_segments.plan_fill(held.config.lake, known, segments, holes, named, copies, in_place=False)
    found_here = () if fill is None else fill.findings
    return [(each.start_offset or 0, each.end_offset or 0) for each in found_here]


def _commit_segments(plan: IngestPlan, done: Sequence[CopiedLog], config: IngestConfig) -> None:
    """Make one commit for logs that only grew, and one for each log where segments are retired or restored."""
    versions = {log.observed.log: log.version for log in plan.logs}
    grown: list[Segment] = []
    swapped: list[CopiedLog] = []
    there, taken_back = archive.ids_in_table(config.lake, [segment for log in done for segment in log.added])
    for log in done:
        swapped_out = {segment.segment_id for swap, _ in log.swaps for segment in swap.retired}
        log = replace(log, added=_once(log.added, there - swapped_out))  # a shorter segment keeps the id
        if log.swaps or any(s.segment_id in taken_back for s in log.added):
            swapped.append(log)
        else:
            grown += log.added
    if grown:
        archive.commit_segments(config.lake, grown, versions, config.run_id, config.as_of_ms)
    if not swapped:
        return
    swaps = [swap for log in swapped for swap in log.swaps]
    archive.swap_segments(
        config.lake,
        [segment for swap, _ in swaps for segment in swap.retired],
        [segment for log in swapped for segment in log.added],
        versions,
        config.run_id,
        config.as_of_ms,
        {segment.segment_id: swap.because for swap, _ in swaps for segment in swap.retired},
        {old: new for swap, made in swaps for old, new in segment_slices.replaced_by(swap, made).items()},
    )


def _once(added: Sequence[Segment], there: Collection[str]) -> tuple[Segment, ...]:
    """The segments without those that the table has already. An id names bytes and their place in the log."""
    return tuple({each.segment_id: each for each in added if each.segment_id not in there}.values())


def _check_unpublished(lake: str, done: Sequence[CopiedLog]) -> None:
    """Check that no offset that is cut back was published since the plan.

    Raises:
        ConcurrentChange: Such an offset was published.
    """
    cuts = {log.row.log: log.plan.observed.next_offset for log in done if log.swaps and log.plan.cut is not None}
    for log, published in source_changes.published_to(lake, sorted(cuts)).items() if cuts else ():
        if published > cuts[log]:
            raise ConcurrentChange(f"{log} was published up to {published} while it was to be cut back to {cuts[log]}.")
