"""`loglake compact`: a partition directory after one round of the log cleaner, as a broker leaves it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from logcore.cli.maintenance import maintenance, planned_directories
from logcore.cli.maintenance.maintenance import DirectoryPlan, LogSettings, NewDirectory
from logcore.cli.maintenance.planned_directories import PlannedWork
from logcore.cli.output.command_notes import CommandNotes
from logcore.errors import LogError
from logcore.logs.compaction.compaction_plan import (
    CompactionOutcome,
    CompactionPlan,
    NothingToClean,
    plan_compaction,
    run_compaction,
)
from logcore.logs.compaction.planned_round import findings_told
from logcore.logs.model.findings import Finding
from logcore.logs.model.partition_directory import PartitionDirectory
from logcore.storage.partition_output import PartitionOutput
from logcore.storage.source_errors import shown

_USED = (
    "min.cleanable.dirty.ratio",
    "max.compaction.lag.ms",
    "min.compaction.lag.ms",
    "delete.retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "index.interval.bytes",
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `compact`."""
    parser.description = (
        "Make a copy of a partition directory that is cleaned by key, as one round of a broker's log "
        "cleaner leaves it: from the first segment up to the active one, the last stable offset, or segments younger "
        "than min.compaction.lag.ms. The dirty ratio and cleanup.policy of the log do not matter. Every batch is "
        "verified first. Damaged segments, and segments that would be merged with them, are copied unchanged. For a "
        "whole log directory --plan prints a line for each log: the dirtiest first, as the cleaner takes them, or why "
        "a log is not cleaned; there cleanup.policy and the dirty ratio matter."
    )
    maintenance.add_arguments(parser)
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    settings = maintenance.check_arguments(arguments, _USED, refuses_doubt=True)

    def planned(directory: PartitionDirectory, settings: LogSettings) -> CompactionPlan | NothingToClean:
        from logcore.columns.verified_batches import read_verified  # it often takes longer than the reading

        return plan_compaction(
            directory,
            settings.config,
            line=arguments.compat,
            as_of_ms=maintenance.as_of_ms(arguments),
            upper_bound=arguments.cleaner_upper_bound,
            read=read_verified,
        )

    def plan_of(
        directory: PartitionDirectory, settings: LogSettings, read: Sequence[Finding], notes: CommandNotes
    ) -> DirectoryPlan:
        maintenance.say_source_findings(read, arguments, notes)
        maintenance.say_lost_offsets(arguments, notes, is_compacted=settings.is_compacted)
        # For many partitions this import takes longer than the cleaning.
        from logcore.cli.entry_points import load_snappy_java
        from logcore.columns.engines import new_cleaner
        from logcore.records.snappy_encoder import use_library

        use_library(load_snappy_java)
        plan = planned(directory, settings)
        if isinstance(plan, NothingToClean):
            return _unchanged(plan, arguments.out)

        def clean(output: PartitionOutput) -> NewDirectory:
            outcome = run_compaction(plan, output.stream, new_cleaner())
            return NewDirectory(outcome.files, outcome.root, _summary(plan, outcome, arguments.out))

        return DirectoryPlan(plan.as_dict(), clean, plan.findings)

    def work(directory: PartitionDirectory, settings: LogSettings, _: str) -> PlannedWork:
        if not settings.config.compacts:
            return PlannedWork(f"cleanup.policy is {','.join(settings.config.cleanup_policy)}")
        return _work(planned(directory, settings))

    if planned_directories.is_whole(arguments):
        settings.used = (*_USED, "cleanup.policy")
        return planned_directories.run(arguments, settings, CommandNotes(), work)
    try:
        return maintenance.run(arguments, settings, plan_of, CommandNotes())
    except LogError as error:
        raise error.at(file=shown(arguments.source)) from error.__cause__


def _work(plan: CompactionPlan | NothingToClean) -> PlannedWork:
    """Return the work in a log, as the cleaner thread decides (LogCleanerManager.grabFilthiestCompactedLog)."""
    if isinstance(plan, NothingToClean):
        return PlannedWork(plan.message, findings=plan.findings)
    chosen = plan.chosen
    figures = {
        "dirty_ratio": round(chosen.dirty_ratio, 6),
        "clean_bytes": chosen.clean_bytes,
        "cleanable_bytes": chosen.cleanable_bytes,
        "first_dirty_offset": chosen.first_dirty,
        "end_offset": chosen.end_offset,
        "damaged_segments": len(plan.damaged),
    }
    if plan.why_not is not None:
        return PlannedWork(plan.why_not.message, figures=figures, findings=plan.findings)
    reason = f"{chosen.dirty_ratio:.3f} of its bytes are dirty"
    if chosen.dirty_ratio <= plan.config.min_cleanable_dirty_ratio:
        reason += ", and max.compaction.lag.ms has passed"
    return PlannedWork(reason, chosen.dirty_ratio, figures, plan.findings)


def _unchanged(refusal: NothingToClean, out: str) -> DirectoryPlan:
    """Return the plan without cleaning: the new directory is the old one, as a broker's start leaves it."""
    decision = {
        "groups": [],
        "refused": str(refusal.reason),
        "why": refusal.message,
        "removed": dict(sorted(refusal.removed.items())),
        "findings": findings_told(refusal.findings),
    }

    def make(_: PartitionOutput) -> NewDirectory:
        summary = f"{shown(os.path.normpath(out))}: copied unchanged; {refusal.message}\n"
        return NewDirectory(refusal.files, refusal.root, summary)

    return DirectoryPlan(decision, make, refusal.findings)


def _summary(plan: CompactionPlan, outcome: CompactionOutcome, out: str) -> str:
    lines = []
    before = 0
    sizes = {each.base_offset: each.size for each in plan.segments}
    for segment, replaced in zip(outcome.segments, outcome.replaced, strict=True):
        took = sum(sizes[base] for base in replaced)
        before += took
        lines.append(
            f"{segment.base_offset:020d}.log: {took} bytes of {len(replaced)} segments -> {segment.size}; "
            f"{segment.removed} records removed, {segment.records} stay, {segment.rebuilt} of {segment.batches} "
            "batches rewritten\n"
        )
    after = sum(segment.size for segment in outcome.segments)
    round = plan.round
    lines.append(
        f"{shown(os.path.normpath(out))}: {before} -> {after} bytes; first dirty offset {round.first_dirty_offset} -> "
        f"{outcome.first_dirty_offset}\n"
    )
    return "".join(lines)
