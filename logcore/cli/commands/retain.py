"""`loglake retain`: the segments after one round of retention, as a broker leaves them.

Which offsets remote storage has is read from the partitions of `__remote_log_metadata` in the same log directory. A
segment counts if its copy ended, its deletion did not begin, and the leader epochs of the directory have its offsets.
The objects themselves are not looked at: `loglake remote` does that. If anything is wrong with the metadata, nothing
counts: a lost record may have said that a segment was deleted. Without readable leader epochs nothing counts either: a
broker then finds no offset in remote storage, and deletes no local segment by age or size (seen with Kafka 4.3.1 and
LocalTieredStorage).
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence

from logcore.cli.maintenance import maintenance, planned_directories
from logcore.cli.maintenance.maintenance import DirectoryPlan, LogSettings, NewDirectory
from logcore.cli.maintenance.planned_directories import PlannedWork
from logcore.cli.output.command_notes import CommandNotes
from logcore.errors import LogError
from logcore.logs.model.findings import Finding, Severity, found
from logcore.logs.model.offset_ledger import EVIDENCE_NO_EPOCHS
from logcore.logs.model.partition_directory import PartitionDirectory
from logcore.logs.model.remote_tier import below_start_of, epochs_of, remote_range
from logcore.logs.retention.retention_plan import (
    HIGH_WATERMARK,
    DeleteRecordsRefused,
    OffsetSpan,
    RetentionPlan,
    plan_retention,
)
from logcore.reading.chosen_logs import find_logs
from logcore.reading.read_options import Notes, ReadOptions
from logcore.reading.remote_metadata import segment_states
from logcore.remote.lineage import offsets_in_lineage
from logcore.remote.remote_segment import RemoteSegment, RemoteSegmentState, TopicIdPartition
from logcore.segments.filenames import LEADER_EPOCH_FILE, LOG_SUFFIX, MAX_OFFSET, REMOTE_METADATA_TOPIC, can_be_tiered
from logcore.storage.broker_state import StateReader
from logcore.storage.partition_directories import directories_beside
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


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `retain`."""
    parser.description = (
        "Make a copy of a partition directory without the segments that one round of retention deletes: "
        "by the log start offset, by retention.bytes, by retention.ms, in this order, each from the oldest on. "
        "With remote.storage.enable local.retention.* decide, and a segment goes by age or size only if "
        "__remote_log_metadata beside SRC says that remote storage has all of it. "
        "Settings without --config are those of __cluster_metadata-0 beside SRC, else Kafka's defaults. Nothing at or "
        "above the high watermark is deleted, and nothing that damage hides. For a whole log directory --plan prints a "
        "line for each log: what goes by which rule, or why nothing goes; the log with the most bytes first. Then a "
        "line for each directory that a broker set aside: whether it may be removed."
    )
    maintenance.add_arguments(parser)
    parser.add_argument(
        "--delete-records-before",
        type=_records_before,
        metavar="N",
        help="first do what deleteRecords up to offset N does; -1 means up to the high watermark",
    )
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    settings = maintenance.check_arguments(arguments, _USED, refuses_doubt=True)
    notes, remote = CommandNotes(), RemoteBeside()

    def planned(directory: PartitionDirectory, settings: LogSettings, path: str, reads_all: bool) -> RetentionPlan:
        if "remote.storage.enable" not in settings.typed and "remote.storage.enable" not in settings.said:
            refuse_unstated_tier(path, directory, remote)
        copies = settings.config.copies_to_remote and can_be_tiered(directory.topic_partition.topic)
        # These imports are often slower than the reading.
        from logcore.columns.engines import segment_reading
        from logcore.columns.verified_batches import read_verified

        return plan_retention(
            directory,
            settings.config,
            line=arguments.compat,
            as_of_ms=maintenance.as_of_ms(arguments),
            delete_records_before=arguments.delete_records_before,
            copied=copied_offsets(path, directory, notes, remote) if copies else (),
            read=segment_reading(),
            read_whole=read_verified if reads_all else lambda *_: (),
        )

    def plan_of(
        directory: PartitionDirectory, settings: LogSettings, read: Sequence[Finding], notes: CommandNotes
    ) -> DirectoryPlan:
        maintenance.say_source_findings(read, arguments, notes)
        maintenance.say_lost_offsets(arguments, notes, is_compacted=settings.is_compacted)
        try:
            plan = planned(directory, settings, arguments.source, True)
        except DeleteRecordsRefused as error:
            raise LogError(f"{error}.", file=shown(arguments.source)) from error
        return DirectoryPlan(
            plan.as_dict(),
            lambda _: NewDirectory(plan.files, plan.root, _summary(plan, arguments.out)),
            plan.findings,
        )

    if planned_directories.is_whole(arguments):
        return planned_directories.run(
            arguments,
            settings,
            notes,
            lambda directory, settings, path: _work(planned(directory, settings, path, False)),
        )
    return maintenance.run(arguments, settings, plan_of, notes)


def _work(plan: RetentionPlan) -> PlannedWork:
    gone, stays = plan.decision.deletions, plan.decision.stays
    nbytes = sum(each.segment.log.size for each in gone)
    segments = {"deleted": len(gone), "kept": len(stays)}
    start = {"before": plan.log_start_offset, "after": plan.new_log_start_offset}
    figures = {"deleted_bytes": nbytes, "segments": segments, "log_start_offset": start}
    segments_of = [*(each.segment for each in gone), *(each.segment for each in stays)]
    last = segments_of[-1:]
    if last and plan.log_start_offset > (end := last[0].reading.next_offset):
        why = f"its log start {plan.log_start_offset} lies after its log end {end}: a broker's start drops all of it"
        return PlannedWork(why, figures=figures, findings=[found("checkpoint-beyond-log-end", f"{why}.")])
    damaged = [
        found("corrupt-bytes", f"{each.log.name} is damaged: `loglake verify` says where.", file=each.log.name)
        for each in dict.fromkeys((*segments_of[: len(gone) + 1], *last))
        if each.reading.is_damaged
    ]
    if not gone:
        why = "; ".join(stays[0].why[1:] or stays[0].why) if stays else "it has no segment"
        return PlannedWork(why, figures=figures, findings=damaged)
    return PlannedWork(f"{gone[0].rule}: {gone[0].why}", nbytes, figures, damaged)


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


def refuse_unstated_tier(path: str, directory: PartitionDirectory, remote: RemoteBeside | None = None) -> None:
    """Check a directory of a topic of which no one said whether it is tiered.

    Args:
        path: The partition directory.
        directory: Its files.
        remote: What is known of remote storage, if several logs of a log directory are checked.

    Raises:
        LogError: Its files, or the metadata beside it, show that a part of the log is or may be in remote storage.
    """
    known = remote_range(below_start_of(directory))
    why = None
    if known is not None:
        where = f"offsets [{known[0]}, {known[1]}) are in the remote tier"
        if known[2] == EVIDENCE_NO_EPOCHS:
            where += " or were deleted; leader-epoch-checkpoint, which would show it, is missing or broken"
        why = f"{where}, and nothing says that the topic is tiered"
    elif number := len((remote or RemoteBeside()).segments(path, directory, Notes()) or ()):
        named = f"{number} segment{'s' if number > 1 else ''}"
        why = f"{REMOTE_METADATA_TOPIC} names {named} of it, and nothing says that the topic is tiered"
    if why is not None:
        raise LogError(
            why,
            file=shown(path),
            advice="Type --config remote.storage.enable=true, and local.retention.ms and local.retention.bytes if the "
            "topic has them. With remote.storage.enable=false the log start moves to the first local segment.",
        )


def copied_offsets(
    path: str, directory: PartitionDirectory, notes: Notes, remote: RemoteBeside | None = None
) -> tuple[OffsetSpan, ...]:
    """Return the offsets of a partition directory that remote storage has, ascending.

    Args:
        path: The partition directory.
        directory: Its files.
        notes: Gets the findings about the metadata.
        remote: What is known of remote storage, if several logs of a log directory are planned.
    """
    of_metadata = Notes()
    segments = (remote or RemoteBeside()).segments(path, directory, of_metadata)
    notes.say_all(of_metadata.findings)
    if segments is None:
        root = shown(os.path.dirname(os.path.abspath(path)))
        message = f"no partition of {REMOTE_METADATA_TOPIC} is in {root}; which segments were copied is unknown."
        notes.say(found("no-remote-metadata", message, file=root))
    epochs = epochs_of(directory) or ()
    if not epochs and any(name.endswith(LOG_SUFFIX) and file.size for name, file in directory.files.items()):
        message = (
            f"{directory.topic_partition}: {LEADER_EPOCH_FILE} has no epochs that can be read. Without them nothing "
            "shows which offsets are in remote storage, so no segment is deleted by age or size."
        )
        notes.say(found("remote-tier-unproven", message, file=shown(path)))
    if segments is None or any(each.severity is not Severity.INFO for each in of_metadata.findings):
        return ()
    spans: list[OffsetSpan] = []
    for segment in segments:
        if segment.state is RemoteSegmentState.COPY_FINISHED:
            # Offsets of one epoch have the same records wherever they are, so the end of this log does not matter.
            part = offsets_in_lineage(segment, epochs, MAX_OFFSET)
            if part is not None:
                spans.append((part.start_offset, part.end_offset))
    return tuple(sorted(spans))


class RemoteBeside:
    """What `__remote_log_metadata` beside a log says of remote storage, read once for each log directory."""

    def __init__(self) -> None:
        self._by_root: dict[str, tuple[dict[TopicIdPartition, list[RemoteSegment]] | None, list[Finding]]] = {}

    def segments(self, path: str, directory: PartitionDirectory, notes: Notes) -> tuple[RemoteSegment, ...] | None:
        """Return the segments of a log, in any state; None without a partition of that topic.

        Args:
            path: The partition directory.
            directory: Its files.
            notes: Gets the findings about the metadata.
        """
        root = os.path.dirname(os.path.abspath(path))
        if root not in self._by_root:
            self._by_root[root] = _read_beside(path)
        of_place, findings = self._by_root[root]
        notes.say_all(findings)
        if of_place is None:
            return None
        topic_id, _ = StateReader().topic_id(path)
        if topic_id is None:
            return ()
        return tuple(of_place.get(TopicIdPartition(topic_id, directory.topic_partition.partition), ()))


def _read_beside(path: str) -> tuple[dict[TopicIdPartition, list[RemoteSegment]] | None, list[Finding]]:
    directories, notes = directories_beside(path, REMOTE_METADATA_TOPIC), Notes()
    states = segment_states(find_logs(ReadOptions(directories), notes), notes) if directories else None
    if states is None:
        return None, notes.findings
    of_place: dict[TopicIdPartition, list[RemoteSegment]] = {}
    for segment in states.segments.values():
        of_place.setdefault(segment.place, []).append(segment)
    return of_place, notes.findings
