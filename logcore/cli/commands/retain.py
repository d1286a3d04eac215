"""`loglake retain`: the segments after one round of retention, as a broker leaves them."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence

from logcore.cli.maintenance import maintenance
from logcore.cli.maintenance.log_settings import LogSettings
from logcore.cli.maintenance.maintenance import DirectoryPlan, NewDirectory
from logcore.cli.maintenance.remote_copies import copied_offsets, refuse_unstated_tier
from logcore.cli.output.command_notes import CommandNotes
from logcore.errors import LogError
from logcore.logs.model.findings import Finding
from logcore.logs.model.partition_directory import PartitionDirectory
from logcore.logs.retention.retention_plan import HIGH_WATERMARK, DeleteRecordsRefused, RetentionPlan, plan_retention
from logcore.segments.filenames import can_be_tiered
from logcore.storage.source_errors import shown

_USED = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "remote.storage.enable",
    "remote.log.copy.disable",
    "local.retention.ms",
    "local.retention.bytes",
)


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], parent: argparse.ArgumentParser
) -> None:
    """Add `retain` to the command line."""
    parser = subparsers.add_parser(
        "retain",
        parents=[parent],
        help="the segments left after retention",
        description="Make a copy of a partition directory without the segments that one round of retention deletes: "
        "by the log start offset, by retention.bytes, by retention.ms, in this order, each from the oldest on. "
        "With remote.storage.enable local.retention.* decide, and a segment goes by age or size only if "
        "__remote_log_metadata beside SRC says that remote storage has all of it. "
        "Settings without --config are those of __cluster_metadata-0 beside SRC, else Kafka's defaults. Nothing at or "
        "above the high watermark is deleted, and nothing that damage hides.",
    )
    maintenance.add_arguments(parser)
    parser.add_argument(
        "--delete-records-before",
        type=_records_before,
        metavar="N",
        help="first do what deleteRecords up to offset N does; -1 means up to the high watermark",
    )
    parser.set_defaults(func=run, parser=parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    settings = maintenance.check_arguments(arguments, _USED, refuses_doubt=True)

    def plan_of(
        directory: PartitionDirectory, settings: LogSettings, read: Sequence[Finding], notes: CommandNotes
    ) -> DirectoryPlan:
        maintenance.say_source_findings(read, arguments, notes)
        if "remote.storage.enable" not in settings.typed and "remote.storage.enable" not in settings.said:
            refuse_unstated_tier(arguments.source, directory)
        copies = settings.config.copies_to_remote and can_be_tiered(directory.topic_partition.topic)
        # These imports are often slower than the reading.
        from logcore.columns.checking.verified_batches import read_verified
        from logcore.columns.engines import segment_reading

        try:
            plan = plan_retention(
                directory,
                settings.config,
                line=arguments.compat,
                as_of_ms=maintenance.as_of_ms(arguments),
                delete_records_before=arguments.delete_records_before,
                copied=copied_offsets(arguments.source, directory, notes) if copies else (),
                read=segment_reading(),
                read_whole=read_verified,
            )
        except DeleteRecordsRefused as error:
            raise LogError(f"{error}.", file=shown(arguments.source)) from error
        return DirectoryPlan(
            plan.as_dict(),
            lambda _: NewDirectory(plan.files, plan.root, _summary(plan, arguments.out)),
            plan.findings,
        )

    return maintenance.run(arguments, settings, plan_of, CommandNotes())


def _summary(plan: RetentionPlan, out: str) -> str:
    gone = plan.decision.deletions
    lines = [f"{each.segment.log.name} is deleted by {each.rule}: {each.why}\n" for each in gone]
    nbytes = sum(each.segment.log.size for each in gone)
    kept = len(plan.decision.stays) + (plan.new_segment is not None)
    rolled = "" if plan.new_segment is None else f", a new empty one at offset {plan.new_segment}"
    lines.append(
        f"{shown(os.path.normpath(out))}: {kept} segments{rolled}; {len(gone)} deleted with {nbytes} bytes; "
        f"log start offset {plan.log_start_offset} -> {plan.new_log_start_offset}\n"
    )
    return "".join(lines)


def _records_before(text: str) -> int:
    if text == str(HIGH_WATERMARK):
        return HIGH_WATERMARK
    if not re.fullmatch(r"[0-9]{1,18}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is neither an offset nor -1")
    return int(text)
