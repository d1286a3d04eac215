"""`loglake compare`: the copies of each log, where they part, what each lacks, and which one to keep."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence

from logcore.cli.output.aligned_table import aligned_table
from logcore.cli.output.command_notes import CommandNotes
from logcore.cli.output.record_lines import json_line
from logcore.cli.reading.arguments import add_choice, add_paths, add_remote, read_options
from logcore.exit_codes import ExitCode
from logcore.logs.growth.histories import CopyVerdict
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.sources import SourceLog
from logcore.ranges import Range
from logcore.reading.chosen_logs import find_logs
from logcore.reading.compared_copies import ComparedCopies
from logcore.reading.copy_histories import ComparedPair, LogCopies, compare_log, copies_of_one_topic, lost_by_all
from logcore.reading.source_directories import source_directories
from logcore.segments.filenames import DirectoryKind, TopicPartition
from logcore.storage.discovery import discover, shown

_CODES = {
    CopyVerdict.EQUAL: ExitCode.CLEAN,
    CopyVerdict.CLEANED: ExitCode.CLEAN,
    CopyVerdict.BEHIND: ExitCode.WARNING,
    CopyVerdict.DAMAGED: ExitCode.DAMAGE,
    CopyVerdict.DIVERGED: ExitCode.DAMAGE,
}
_QUIET = ("several-copies", "no-high-watermark", "no-meta-properties", "missing-offsets", "remote-tier")
_NAMED = 5


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `compare`."""
    parser.description = (
        "Compare the copies of each log in several directories: replicas, or a snapshot and the live disk. "
        "Every header and checksum is read, and records only where one of the copies may be cleaned. "
        "Exit codes: 0 nothing is missing, 1 a copy lacks offsets, 2 histories part or a checksum is wrong."
    )
    add_paths(parser)
    add_choice(parser)
    add_remote(parser)
    parser.add_argument("--format", choices=("text", "jsonl"), default="text")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    notes, options = CommandNotes(), read_options(arguments)
    logs = [
        log
        for log in find_logs(options, notes, quiet=_QUIET, is_check=True, without_misnamed=True)
        if log.kind is DirectoryKind.LIVE
    ]
    copies = ComparedCopies(logs if options.selection.is_everything else discover(options.paths).logs)
    by_name: dict[TopicPartition, list[SourceLog]] = {}
    for log in logs:
        by_name.setdefault(log.topic_partition, []).append(log)
    notes.say_all(_absent(options.paths, by_name, copies))
    code, table = ExitCode.CLEAN, _Table()
    for of_name in by_name.values():
        for group in copies_of_one_topic(of_name):
            compared = compare_log(group, copies, notes)
            notes.say_all(lost_by_all(compared, copies, notes))
            code = max([code, *(_CODES[pair.verdict] for pair in compared.pairs)])
            if arguments.format == "jsonl":
                sys.stdout.writelines(json_line(row) for row in _rows(compared))
            else:
                table.add(compared)
    if arguments.format == "text":
        sys.stdout.write(table.text())
    return max(code, notes.exit_code)


def _absent(
    paths: Sequence[str], by_name: Mapping[TopicPartition, Sequence[SourceLog]], copies: ComparedCopies
) -> Iterator[Finding]:
    """Yield a finding for each path that lacks a log that lies at another one, and that its broker should hold."""
    if all(len(logs) >= len(paths) for logs in by_name.values()):
        return
    for path in paths:
        there = discover([path]).logs
        if there and (there[0].named_files or _name(there[0].directory) == _name(path)):
            continue  # only this partition was named
        broker, held = there[0].broker_id if there else None, {log.topic_partition for log in there}
        absent = []
        for name, logs in by_name.items():
            if name not in held and not logs[0].is_metadata:
                replicas = copies.replicas_of(logs[0])
                is_due = str(broker) in map(str, replicas) if replicas is not None else _is_of_one_disk(logs, there)
                if is_due:
                    absent.append(str(name))
        if absent:
            more = f" and {len(absent) - _NAMED} more" if len(absent) > _NAMED else ""
            message = f"{shown(path)} has no copy of {', '.join(absent[:_NAMED])}{more}, which another path has."
            yield found("copy-absent", message, file=shown(path))


def _is_of_one_disk(logs: Sequence[SourceLog], there: Sequence[SourceLog]) -> bool:
    """Whether a copy is from the disk that another path shows, such as a backup. A log need not be on each broker."""
    disks = [(each.broker, each.directory_id) for each in source_directories(there)] or [(None, None)]
    own = [(each.broker, each.directory_id) for each in source_directories(logs)]
    return any(
        broker == mine and (None in (disk, my_disk) or disk == my_disk)
        for broker, disk in disks
        for mine, my_disk in own
    )


def _name(path: str) -> str:
    return os.path.basename(path.rstrip("/"))


def _rows(compared: LogCopies) -> Iterator[dict[str, object]]:
    place = compared.logs[0].topic_partition.columns
    sources = [shown(log.directory) for log in compared.logs]
    for source, history in zip(sources, compared.histories, strict=True):
        yield {
            "kind": "copy",
            **place,
            "source": source,
            "leader_epochs": [[each.epoch, each.start_offset] for each in history.stated_epochs or history.epochs],
            "log_start_offset": history.log_start_offset,
            "log_end_offset": history.log_end_offset,
            "high_watermark": history.high_watermark,
        }
    for pair in compared.pairs:
        yield {
            "kind": "pair",
            **place,
            "left": sources[pair.left],
            "right": sources[pair.right],
            "verdict": str(pair.verdict),
            "first_divergent_offset": pair.difference.parts_at,
            "left_truncates_to": pair.difference.left_truncates_to,
            "right_truncates_to": pair.difference.right_truncates_to,
        }
    for base, holders in compared.batches:
        yield {"kind": "batch", **place, "base_offset": base, "holds_in": [sources[number] for number in holders]}
    kept = compared.kept
    yield {"kind": "verdict", **place, "keep": None if kept is None else shown(kept.directory)}


_HEADINGS = (
    "TOPIC PARTITION",
    "LEFT",
    "RIGHT",
    "VERDICT",
    "PARTS AT",
    "LEFT TRUNCATES TO",
    "RIGHT TRUNCATES TO",
    "ONLY LEFT",
    "ONLY RIGHT",
)


class _Table:
    """The table for people: a line for each pair that differs, and one for a log whose copies are all equal."""

    def __init__(self) -> None:
        self._cells: list[tuple[str, ...]] = []
        self._lines: list[str] = []

    def add(self, compared: LogCopies) -> None:
        """Add a log."""
        name, kept = str(compared.logs[0].topic_partition), compared.kept
        different = [pair for pair in compared.pairs if pair.verdict is not CopyVerdict.EQUAL]
        if not different:
            count = len(compared.logs)
            verdict = str(CopyVerdict.EQUAL) if count > 1 else "one copy"
            places = f"{count} copies" if count > 1 else shown(compared.logs[0].directory)
            self._cells.append((name, places, "", verdict, "", "", "", "", ""))
            return
        self._cells += [_cells(name, compared, pair) for pair in different]
        for base, holders in compared.batches:
            places = ", ".join(shown(compared.logs[number].directory) for number in holders) or "none of the copies"
            self._lines.append(f"{name}: the batch at offset {base} is whole in {places}\n")
        decision = compared.decision
        if kept is None:
            places = " or ".join(shown(log.directory) for log in compared.logs)
            self._lines.append(f"{name}: keep none before one is named: {decision.undecided}: {places}\n")
        else:
            self._lines.append(f"{name}: keep {shown(kept.directory)} ({decision.evidence})\n")

    def text(self) -> str:
        """Return the table, and the lines about logs whose copies differ."""
        return (aligned_table(_HEADINGS, self._cells, (4, 5, 6)) if self._cells else "") + "".join(self._lines)


def _cells(name: str, compared: LogCopies, pair: ComparedPair) -> tuple[str, ...]:
    found = pair.difference
    places = (shown(compared.logs[number].directory) for number in (pair.left, pair.right))
    numbers = (found.parts_at, found.left_truncates_to, found.right_truncates_to)
    offsets = ("-" if number is None else str(number) for number in numbers)
    return (name, *places, str(pair.verdict), *offsets, _ranges_text(found.only_left), _ranges_text(found.only_right))


def _ranges_text(ranges: Sequence[Range]) -> str:
    more = f" and {len(ranges) - 3} more" if len(ranges) > 3 else ""
    return " ".join(f"[{start}, {end})" for start, end in ranges[:3]) + more or "-"
