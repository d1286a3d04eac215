"""`recover` and `reindex` over one partition directory, or over the chosen logs of whole log directories.

    loglake recover orders-0 --out DST                  DST becomes the new partition directory
    loglake recover LOGDIR [LOGDIR2 ...] --out DST      each log becomes DST/<topic-partition>

If a topic partition is in several directories, the copy that has its history is used (`logcore.logs.growth.copies`). Of
several such copies it is the one that ends highest after its recovery, then the one whose recovery loses least. A log
that cannot be read, planned or written, or whose history is not decided, does not stop the others.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from logcore.cli.maintenance import maintenance
from logcore.cli.maintenance.copy_progress import CopyProgress
from logcore.cli.maintenance.maintenance import DirectoryPlan, LogSettings, NewDirectory, SettingsOfLogs
from logcore.cli.output.command_notes import CommandNotes
from logcore.cli.output.terminal import FILE, OF_SEVERITY, Style, Terminal, size_text
from logcore.cli.reading.arguments import selection_of
from logcore.errors import LogError
from logcore.exit_codes import ExitCode
from logcore.logs.growth.copies import CopyDifference, Evidence, LogCopy
from logcore.logs.growth.lost_start import lost_start_finding
from logcore.logs.model.findings import Finding, Severity
from logcore.logs.model.partition_directory import PartitionDirectory, RootLines
from logcore.logs.model.sources import SourceLog
from logcore.logs.recovery.proposal import RecoveryPlan
from logcore.reading.chosen_logs import find_logs, nothing_chosen
from logcore.reading.compared_copies import ComparedCopies, fill_command, not_decided
from logcore.reading.copy_histories import with_headers
from logcore.reading.read_options import ReadOptions
from logcore.records.packed_files import packed_kind, unpacking
from logcore.segments.filenames import META_PROPERTIES_FILE, TopicPartition
from logcore.storage.broker_state import StateReader
from logcore.storage.discovery import discover, shown, source_path
from logcore.storage.objects.addresses import directory_of
from logcore.storage.partition_directories import partition_directory, refuse_changes
from logcore.storage.partition_output import (
    PartitionOutput,
    check_root_files,
    is_written,
    refuse_below,
    write_lines_of_logs,
)

RecoveryPlanner = Callable[[PartitionDirectory, LogSettings, Sequence[Finding]], RecoveryPlan]
"""Makes the plan of one partition directory by its settings, with the findings about its root files."""


@dataclass(slots=True)
class RecoveredLogs:
    """One run of a command.

    Attributes:
        arguments: The command line.
        settings: Finds the settings of a log.
        plan_of: Makes the plan of a log.
        progress: Shows how far the logs are read and written.
        advice: Added after the reason why a broker would not start with a log.
    """

    arguments: argparse.Namespace
    settings: SettingsOfLogs
    plan_of: RecoveryPlanner
    progress: CopyProgress
    advice: str = ""
    _notes: CommandNotes = field(init=False)
    _states: dict[str, StateReader] = field(init=False)
    _lines: dict[TopicPartition, RootLines] = field(default_factory=dict)
    _refused: dict[str, list[str]] = field(default_factory=dict)
    """The logs that a broker would not start with, by the reason."""

    def __post_init__(self) -> None:
        self._notes = CommandNotes(progress=self.progress.line)
        self._states = defaultdict(lambda: StateReader(beside=self.arguments.sources))

    def run(self) -> int:
        """Run the command; returns its exit code, the worst of all its logs."""
        sources: list[str] = self.arguments.sources
        found_there = maintenance.of_one_partition(sources)
        try:
            if found_there is not None:
                self.arguments.source = sources[0]
                return self._run_one(found_there)
            maintenance.refuse_options_of_one_log(self.arguments)
            return self._run_several()
        finally:
            self.progress.line.clear()  # also before an error or an interrupt is reported

    def _run_one(self, logs: Sequence[SourceLog]) -> int:
        """Run it over one partition directory."""
        arguments, notes, terminal = self.arguments, self._notes, Terminal.of(sys.stdout)
        if not _is_the_chosen_one(arguments, logs, notes):
            return notes.exit_code

        def directory_plan(
            directory: PartitionDirectory, settings: LogSettings, read: Sequence[Finding], notes: CommandNotes
        ) -> DirectoryPlan:
            self.progress.reads(directory)
            plan = self.plan_of(directory, settings, read)
            self.progress.line.clear()
            if plan.refusal is None:
                maintenance.say_source_findings(read, arguments, notes)
            _say_kept(plan, directory, arguments.source)

            def make(_: PartitionOutput) -> NewDirectory:
                text = summary(plan, directory.topic_partition, arguments.out, terminal)
                return NewDirectory(plan.files, plan.root, text, keeps_other_lines=False)

            provenance = plan.provenance(shown(os.path.abspath(arguments.source)))
            return DirectoryPlan(
                plan.as_dict() | {"provenance": provenance},
                make,
                refusal=plan.refusal and f"{_sentence(plan.refusal)} Nothing was written.{self.advice}",
                exit_code=plan.exit_code,
            )

        return maintenance.run(arguments, self.settings, directory_plan, notes, self.progress)

    def _run_several(self) -> int:
        """Run it over the chosen logs of whole log directories."""
        arguments, notes = self.arguments, self._notes
        options = ReadOptions(paths=tuple(arguments.sources), selection=selection_of(arguments))
        quiet: tuple[str, ...] = ("no-high-watermark", "broken-root-file", "no-meta-properties")
        quiet += ("remote-tier", "remote-tier-unproven", "missing-offsets", "several-copies")
        logs = find_logs(options, notes, quiet=quiet, is_check=True, without_misnamed=True)
        by_name: dict[TopicPartition, list[SourceLog]] = {}
        for log in logs:
            if log.named_files:
                notes.refuse(f"{shown(log.directory)}: segments were named one by one; name the partition directory.")
            else:
                by_name.setdefault(log.topic_partition, []).append(log)
        if getattr(arguments, "side", None) is not None and not any(_is_side(log, arguments) for log in logs):
            side = shown(arguments.side)
            arguments.parser.error(f"--side {side}: no chosen log is there, so there is no copy to follow")
        if not by_name and not notes.exit_code:
            notes.refuse(f"{', '.join(map(shown, arguments.sources))}: no log was found there.")
        if not arguments.plan:
            _refuse_outputs(arguments, logs)
        self.progress.logs = len(by_name)
        code = ExitCode.CLEAN
        try:
            for name, copies in by_name.items():
                self.progress.next_log()
                code = max(code, self._run_log(name, copies))
        finally:
            self.progress.line.clear()
            for why, of_logs in self._refused.items():  # a root file is the reason of all logs of its directory
                notes.refuse(f"{', '.join(of_logs)}: {why}")
            if self._lines and arguments.checkpoints_out is not None:
                write_lines_of_logs(arguments.checkpoints_out, self._lines)
        if self._lines:
            sys.stdout.write(_before_a_broker_starts(arguments.checkpoints_out or arguments.out, logs))
        return max(code, notes.exit_code)

    def _run_log(self, name: TopicPartition, logs: Sequence[SourceLog]) -> ExitCode:
        """Write the best copy of one log, and keep its lines of the root files. Returns its exit code."""
        arguments, notes = self.arguments, self._notes
        with ExitStack() as stack:
            copies = list(self._copies(stack, logs))
            self.progress.line.clear()
            if not copies:
                return ExitCode.CLEAN  # the notes have the reason
            at_paths = ComparedCopies(discover(arguments.sources).logs if len(copies) > 1 else ())
            logs = [copy.log for copy in copies]
            side = next((log.directory for log in logs if _is_side(log, arguments)), None)
            known, forks = with_headers([copy.compared for copy in copies])
            compared = at_paths.compare(known, forks, side)
            if compared.undecided is not None:
                finding = not_decided(compared)
                how = f" `loglake {arguments.command} … --side PATH` follows one." if hasattr(arguments, "side") else ""
                notes.say(replace(finding, message=f"{finding.message}{how}"))
                return ExitCode.CLEAN  # the notes have the reason
            of_directory = {copy.log.directory: copy for copy in copies}
            taken = of_directory[compared.best.log.directory]
            plan, source = taken.plan, shown(taken.log.directory)
            others = [(of_directory[each.copy.log.directory], each) for each in compared.others]
            not_taken = [(shown(copy.log.directory), copy.why_not(difference)) for copy, difference in others]
            if arguments.plan:
                reasons = [{"source": path, "why": why} for path, why in not_taken]
                head = maintenance.plan_head(arguments, taken.directory, taken.settings)
                chosen = {"source": source, "evidence": compared.evidence, "not_taken": reasons}
                decision = head | chosen | plan.as_dict() | {"provenance": plan.provenance(source)}
                sys.stdout.write(json.dumps(decision) + "\n")
            _say_kept(plan, taken.directory, taken.log.directory)
            if plan.refusal is not None:
                for copy in copies:
                    why = f"{_sentence(copy.plan.refusal)} Nothing of it was written.{self.advice}"
                    self._refused.setdefault(why, []).append(f"{name} ({shown(copy.log.directory)})")
                return plan.exit_code
            if arguments.plan:
                return plan.exit_code
            out = os.path.join(arguments.out, str(name))
            try:
                if is_written(taken.log.directory, out, plan.files):
                    sys.stdout.write(f"{name}: {shown(out)} is complete already, from an earlier run\n")
                else:
                    with PartitionOutput(taken.log.directory, out) as new:
                        maintenance.put(new, taken.directory, plan.files, self.progress)
            except LogError as error:
                notes.refuse(f"{name} ({source}): {error}")
                return plan.exit_code
            self._lines[name] = plan.root
            if not_taken:
                end = f"which ends at offset {plan.log_end_offset} ({compared.evidence})"
                sys.stdout.write(f"{name}: taken from {source}, {end}\n")
            for path, why in not_taken:
                sys.stdout.write(f"{name}: not taken from {path}: {why}\n")
            for copy, difference in others:
                if difference.fills:
                    sys.stdout.write(f"{name}: {fill_command(taken.log, copy.log)}\n")
            for line in taken.settings.lines.splitlines():
                sys.stdout.write(f"{name}: {line}\n")
            sys.stdout.write(summary(plan, name, out, Terminal.of(sys.stdout)))
            return plan.exit_code

    def _copies(self, stack: ExitStack, logs: Sequence[SourceLog]) -> Iterator[_Copy]:
        """Yield the copies of a log that can be read, each with its plan. Errors are reported. `stack` closes them."""
        around = getattr(self.arguments, "salvage", False)
        for log in logs:
            read: list[Finding] = []
            state = self._states[os.path.dirname(os.path.abspath(log.directory))]
            try:
                directory = stack.enter_context(partition_directory(log.directory, read, state, reads_around=around))
                self.progress.reads(directory)
                of_log = self.settings.of(log.directory)
                plan = self.plan_of(directory, of_log, read)
                refuse_changes(directory)
            except LogError as error:
                self._notes.refuse(f"{log.topic_partition} ({shown(log.directory)}): {error}")
                continue
            self._notes.say_all(read if plan.refusal is None else ())
            if of_log.doubt is not None:
                self._notes.say(of_log.doubt)
            yield _Copy(log, directory, of_log, plan)


@dataclass(frozen=True, slots=True)
class _Copy:
    """A log in one directory, and its recovery plan."""

    log: SourceLog
    directory: PartitionDirectory
    settings: LogSettings
    plan: RecoveryPlan

    @property
    def compared(self) -> LogCopy:
        """The copy as its recovery leaves it."""
        lost = sum(loss.nbytes or 0 for loss in self.plan.losses if loss.severity is Severity.ERROR)
        end = self.plan.log_end_offset if self.plan.refusal is None else self.log.log_start_offset
        return LogCopy(self.log, end, (self.plan.exit_code, lost), self.plan.lost)

    def why_not(self, difference: CopyDifference) -> str:
        """Return why another copy is used instead."""
        if self.plan.refusal is not None:
            return self.plan.refusal.rstrip(".")
        if difference.evidence is not Evidence.LOSSES:
            return str(difference)
        worst = max(self.plan.losses, key=lambda loss: loss.severity is Severity.ERROR)
        return str(replace(difference, reason=f"{difference.reason} ({worst.kind}: {worst.counted})"))


def _is_the_chosen_one(arguments: argparse.Namespace, logs: Sequence[SourceLog], notes: CommandNotes) -> bool:
    selection = selection_of(arguments)
    for log in logs if arguments.log_start_offset is None else ():
        if log.lost_start is not None:
            notes.say(lost_start_finding(log, log.lost_start))
    notes.say_all(nothing_chosen(selection, (log.topic_partition for log in logs)))
    return all(selection.matches(log.topic_partition.topic, log.topic_partition.partition) for log in logs)


def _say_kept(plan: RecoveryPlan, directory: PartitionDirectory, source: str) -> None:
    """Say what to do about damage that stays, and about packed segments, whose records no recovery keeps."""
    name = directory.topic_partition
    if any(loss.kind == "damage-kept" for loss in plan.losses):
        maintenance.say_salvage(source, name)
    for file in sorted({loss.file for loss in plan.losses if loss.position == 0} & directory.files.keys()):
        packed = packed_kind(directory.files[file].content)
        if packed is not None:
            unpack = unpacking(packed, shown(os.path.join(source, file)))
            sys.stderr.write(f"What to do about packed-segment of {name}: {unpack}, and recover the log again.\n")


def _sentence(refusal: str | None) -> str:
    return f"{(refusal or '').rstrip('.')}."


def summary(plan: RecoveryPlan, log: TopicPartition, out: str, terminal: Terminal = FILE) -> str:
    """List what a log loses, one line each, and describe the new directory.

    On a terminal the lines are below the name of the log, and sizes have units.
    """
    lines = [f"{terminal.styled(str(log), Style.BOLD)}\n"] if terminal.is_terminal else []
    indent, folder = ("  ", "") if terminal.is_terminal else ("", f"{log}/")
    for loss in plan.losses:
        place = "" if loss.position is None else f", position {loss.position}"
        counted = loss.counted_with(size_text) if terminal.is_terminal else loss.counted
        text = "; ".join(part for part in (counted, loss.message) if part)
        severity = terminal.styled(str(loss.severity), OF_SEVERITY[loss.severity])
        lines.append(f"{indent}{severity} {loss.kind}: {folder}{loss.file}{place}: {text}\n")
    segments = sum(name.endswith(".log") for name in plan.files)
    end = f"log end offset {plan.log_end_offset}"
    lines.append(f"{indent}{shown(os.path.normpath(out))}: segments: {segments}, files: {len(plan.files)}, {end}\n")
    return "".join(lines)


def _is_usable(meta_properties: str) -> bool:
    """Whether a broker starts with this meta.properties."""
    state = StateReader()
    state.root(os.path.dirname(meta_properties), needs_high_watermarks=False)
    return not any(finding.rule == "no-meta-properties" for finding in state.findings)


def _before_a_broker_starts(target: str, logs: Sequence[SourceLog]) -> str:
    """Say where the file comes from that a broker needs beside the logs, and that is never made up."""
    roots = sorted({os.path.dirname(os.path.abspath(log.directory)) for log in logs})
    files = [path for root in roots if os.path.isfile(path := os.path.join(root, META_PROPERTIES_FILE))]
    there = [shlex.quote(shown(path)) for path in files if _is_usable(path)]
    if not there:
        what = f"a {META_PROPERTIES_FILE} that can be used" if files else META_PROPERTIES_FILE
        why = f"{what} is in none of the directories: copy it from the broker's disk"
        return f"before a broker starts on {shown(target)}: {why}\n"
    commands = [f"cp {path} {shlex.quote(shown(target))}/" for path in there]
    if len(commands) == 1:
        return f"before a broker starts on it: {commands[0]}\n"
    return "\n  ".join(["before a broker starts on it, copy its own file by one of these:", *commands]) + "\n"


def _refuse_outputs(arguments: argparse.Namespace, logs: Sequence[SourceLog]) -> None:
    """Raise LogError if an output would be in a directory that is read."""
    roots = sorted({os.path.dirname(os.path.abspath(log.directory)) for log in logs})
    for path in (*arguments.sources, *roots):
        refuse_below(path, arguments.out)
        if arguments.checkpoints_out is not None:
            refuse_below(path, arguments.checkpoints_out)
    for root in roots if arguments.checkpoints_out is not None else ():
        check_root_files(root, arguments.checkpoints_out)


def _is_side(log: SourceLog, arguments: argparse.Namespace) -> bool:
    """Whether the user named a copy, or its log directory, as the one to follow."""
    named = getattr(arguments, "side", None)
    return named is not None and source_path(named) in (log.directory, directory_of(log.directory))
