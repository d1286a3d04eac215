"""`loglake compact`: a partition directory after one round of the log cleaner, as a broker would have left it."""

from __future__ import annotations

import argparse
import os
import sys

from logcore.cli.maintenance import maintenance
from logcore.cli.reading.looking import Notes
from logcore.errors import LogError
from logcore.logs.compaction.plan import (
    CompactionOutcome,
    CompactionPlan,
    NothingToClean,
    plan_compaction,
    run_compaction,
)
from logcore.logs.compaction.planned_round import findings_told
from logcore.logs.model.findings import Finding
from logcore.logs.model.partition_directory import PartitionDirectory
from logcore.storage.files import shown


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], parent: argparse.ArgumentParser
) -> None:
    """Add `compact` to the command line."""
    parser = subparsers.add_parser(
        "compact",
        parents=[parent],
        help="one cleaner round, as the broker would do it",
        description="Make a copy of a partition directory that is cleaned by key, as one round of a broker's log "
        "cleaner leaves it: from the first segment up to the active one, the last stable offset, or segments younger "
        "than min.compaction.lag.ms. It is done however clean the log is, and whatever its cleanup.policy says. Every "
        "batch is verified first: segments that are damaged, and those they would be put together with, are copied as "
        "they are.",
    )
    maintenance.add_arguments(parser)
    parser.set_defaults(func=run, parser=parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    config = maintenance.check_arguments(arguments)
    notes = Notes()
    read: list[Finding] = []
    with maintenance.source(arguments, read) as directory:
        maintenance.say_source_findings(read, arguments, notes)
        # Slower to import than many a partition is to clean.
        from logcore.columns.checking.verified_batches import read_verified
        from logcore.columns.engines import new_cleaner

        try:
            plan = plan_compaction(
                directory,
                config,
                line=arguments.compat,
                as_of_ms=maintenance.as_of_ms(arguments),
                upper_bound=arguments.cleaner_upper_bound,
                read=read_verified,
            )
            for finding in plan.findings:
                notes.say(finding)
            if isinstance(plan, NothingToClean):
                _leave(arguments, directory, plan)
                return notes.exit_code
            if arguments.plan:
                maintenance.print_plan(arguments, directory, plan.as_dict())
                return notes.exit_code
            with maintenance.output(arguments) as output:
                outcome = run_compaction(plan, output.stream, new_cleaner())
                maintenance.put(output, directory, outcome.files)
        except LogError as error:
            raise error.at(file=shown(arguments.source)) from error.__cause__
        maintenance.write_checkpoints(arguments, directory, outcome.root)
        sys.stdout.write(_summary(plan, outcome, arguments.out))
    return notes.exit_code


def _leave(arguments: argparse.Namespace, directory: PartitionDirectory, refusal: NothingToClean) -> None:
    """There is nothing to clean: the new directory is the old one, as a broker's start leaves it."""
    if arguments.plan:
        maintenance.print_plan(
            arguments,
            directory,
            {
                "groups": [],
                "refused": str(refusal.reason),
                "why": refusal.message,
                "removed": dict(sorted(refusal.removed.items())),
                "findings": findings_told(refusal.findings),
            },
        )
        return
    maintenance.write(arguments, directory, refusal.files, refusal.root)
    sys.stdout.write(f"{shown(os.path.normpath(arguments.out))}: copied as it is; {refusal.message}\n")


def _summary(plan: CompactionPlan, outcome: CompactionOutcome, out: str) -> str:
    lines = []
    before = 0
    sizes = {each.base_offset: each.size for each in plan.segments}
    for segment, replaced in zip(outcome.segments, outcome.replaced, strict=True):
        took = sum(sizes[base] for base in replaced)
        before += took
        lines.append(
            f"{segment.base_offset:020d}.log: {took} bytes of {len(replaced)} segments -> {segment.size}; "
            f"{segment.removed} records gone, {segment.records} stay, {segment.rebuilt} of {segment.batches} batches "
            "written again\n"
        )
    after = sum(segment.size for segment in outcome.segments)
    round = plan.round
    lines.append(
        f"{shown(os.path.normpath(out))}: {before} -> {after} bytes; first dirty offset {round.first_dirty_offset} -> "
        f"{outcome.first_dirty_offset}\n"
    )
    return "".join(lines)
