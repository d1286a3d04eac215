"""Logs as commands show them: which logs, which of their offsets, and the findings while they are read.

Like a broker to a consumer, a directory shows the offsets from the log start to the high watermark, or to the last
stable offset. A file that was named, or `--all`, shows everything.
"""

from __future__ import annotations

import argparse
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from logcore.cli.reading.arguments import OffsetRange, selection_of
from logcore.cli.reading.selection import concerns_choice, nothing_chosen, root_of, shown_high_watermark
from logcore.errors import LogError
from logcore.exit_codes import ExitCode
from logcore.logs.checks.validation import stretch_rule
from logcore.logs.model import readable_end
from logcore.logs.model.batch_facts import BatchFact, fact_of
from logcore.logs.model.findings import Finding, Severity, exit_code, found
from logcore.logs.model.remote_tier import remote_finding
from logcore.logs.model.sources import SegmentFile, SourceLog
from logcore.logs.model.transactions import TransactionState, derive_transactions
from logcore.records.record import Record
from logcore.segments.filenames import MAX_OFFSET, DirectoryKind
from logcore.segments.scanning.scan import ScannedBatch, SegmentScan, Stretch, scan
from logcore.storage.local import SourceChanged, SourceUnreadable, discover, shown
from logcore.storage.source_bytes import SourceBytes


@dataclass(slots=True)
class Notes:
    """Findings of one command. Each is reported once on stderr, as soon as it is known."""

    findings: list[Finding] = field(default_factory=list)
    is_refused: bool = False

    def say(self, finding: Finding) -> None:
        """Add a finding, once, and report it."""
        if finding not in self.findings:
            self.findings.append(finding)
            sys.stderr.write(f"{finding.severity}: {finding.message}\n")

    def refuse(self, message: str) -> None:
        """Report that a request is not carried out."""
        self.is_refused = True
        sys.stderr.write(f"error: {message}\n")

    @property
    def exit_code(self) -> ExitCode:
        """0 clean · 1 warnings · 2 damage found · 3 could not check."""
        return ExitCode.NOT_CHECKED if self.is_refused else exit_code(self.findings)


def find_logs(
    arguments: argparse.Namespace,
    notes: Notes,
    *,
    quiet: Iterable[str] = (),
    is_check: bool = False,
    with_aside: bool = False,
) -> tuple[SourceLog, ...]:
    """Find the logs at the command's paths that its options choose, by topic partition, and report findings.

    Args:
        arguments: The command line.
        notes: Reports the findings.
        quiet: Rules whose findings are not reported.
        is_check: Options that match nothing mean that a check failed; else they are only reported.
        with_aside: Add logs in -delete, -future and -stray directories, after the others.
    """
    paths = []
    for path in arguments.paths:
        if "://" in path:
            notes.refuse(f"{shown(path)}: object stores are not built yet; give a local path.")
        else:
            paths.append(path)
    discovery = discover(paths)
    found_logs = [sorted(logs, key=lambda log: log.topic_partition) for logs in (discovery.logs, discovery.set_aside)]
    logs = [*found_logs[0], *found_logs[1]] if with_aside else found_logs[0]
    selection = selection_of(arguments)
    chosen = tuple(log for log in logs if selection.matches(log.topic_partition.topic, log.topic_partition.partition))
    watched = {root_of(log) for log in chosen if not log.named_files}
    for finding in discovery.findings:
        # A file that was named shows everything, for any high watermark.
        if finding.rule in quiet or (finding.rule == "no-high-watermark" and finding.file not in watched):
            continue
        if concerns_choice(finding, arguments, watched):
            notes.say(finding)
    for log in chosen if "remote-tier" not in quiet else ():
        if log.remote is not None and log.kind is DirectoryKind.LIVE:
            notes.say(replace(remote_finding(log.topic_partition, *log.remote), file=shown(log.directory)))
    for finding in nothing_chosen(arguments, logs) if "nothing-chosen" not in quiet else ():
        notes.say(finding if is_check else replace(finding, severity=Severity.INFO))
    return chosen


def one_of_each(logs: tuple[SourceLog, ...], notes: Notes) -> tuple[SourceLog, ...]:
    """Return the logs without those whose topic partition came before, from another path."""
    chosen: dict[str, SourceLog] = {}
    for log in logs:
        first = chosen.setdefault(str(log.topic_partition), log)
        if first is not log:
            message = (
                f"{log.topic_partition} is shown from {shown(first.directory)}; the one in {shown(log.directory)} is "
                "ignored. Name one of them."
            )
            notes.say(found("second-source", message, file=shown(log.directory)))
    return tuple(chosen.values())


@dataclass(frozen=True, slots=True)
class Window:
    """Offsets that a log shows: start..end (exclusive) without `hidden`.

    `hidden`: ascending half-open ranges of batches of aborted transactions.
    """

    start: int
    end: int
    hidden: tuple[tuple[int, int], ...] = ()

    def shows(self, batch: ScannedBatch) -> bool:
        """Whether any offset of a batch may be shown."""
        header = batch.header
        if header.last_offset < self.start or header.base_offset >= self.end:
            return False
        at = bisect_right(self.hidden, (header.base_offset, MAX_OFFSET)) - 1
        return at < 0 or header.base_offset >= self.hidden[at][1]

    def ranges(self, chosen: OffsetRange) -> tuple[tuple[int, int], ...]:
        """Return the shown offsets of a chosen range, as ascending half-open ranges."""
        start = max(self.start, chosen.start or 0)
        end = self.end if chosen.end is None else min(self.end, chosen.end)
        shown_ranges = []
        for hidden_start, hidden_end in self.hidden:
            if start < min(hidden_start, end):
                shown_ranges.append((start, min(hidden_start, end)))
            start = max(start, hidden_end)
        return (*shown_ranges, (start, end)) if start < end else tuple(shown_ranges)


def window(log: SourceLog, arguments: argparse.Namespace) -> Window:
    """Return the shown offsets of a log by the options --all, --high-watermark and --isolation.level."""
    everything = arguments.all or log.named_files
    start = 0 if everything else log.log_start_offset
    asked = arguments.high_watermark
    high_watermark = shown_high_watermark(log, "log-end" if everything and asked == "checkpoint" else asked)
    if arguments.isolation_level == "read_uncommitted":
        return Window(start, high_watermark)
    spans: list[tuple[int, int, int]] = []

    def watched() -> Iterator[BatchFact]:
        for fact in _facts(log):
            if fact.is_transactional and not fact.is_control:
                spans.append((fact.base_offset, fact.next_offset, fact.producer_id))
            yield fact

    # A consumer of a compacted log does not see why offsets are gone; so gaps are not losses here.
    view = derive_transactions(watched(), high_watermark=high_watermark, compacted_by_policy=True)
    lost: dict[int, list[tuple[int, int]]] = {}
    for transaction in view.transactions:
        if transaction.state in (TransactionState.ABORTED, TransactionState.UNKNOWN):
            lost.setdefault(transaction.producer_id, []).append((transaction.first_offset, transaction.last_offset))
    return Window(start, view.last_stable_offset, _hidden(spans, lost))


def committed_end(log: SourceLog, asked: str | int) -> int:
    """Return the offset up to which a log is committed, by its files or the option --high-watermark (`asked`)."""
    stated = None if asked == "log-end" else log.high_watermark
    return readable_end.high_watermark(asked if isinstance(asked, int) else stated)


def committed_word(is_committed: bool) -> str:
    """Return the word for people that describes a line of KRaft's metadata log."""
    return "committed" if is_committed else "tentative"


def _hidden(
    spans: Iterable[tuple[int, int, int]], lost: dict[int, list[tuple[int, int]]]
) -> tuple[tuple[int, int], ...]:
    """Select the ranges of batches (base offset, next offset, producer id) in lost transactions of their producer."""
    hidden = []
    for base, after, producer_id in spans:
        of_producer = lost.get(producer_id, [])
        at = bisect_right(of_producer, (base, MAX_OFFSET)) - 1
        if at >= 0 and base <= of_producer[at][1]:
            hidden.append((base, after))
    return tuple(hidden)


def segment_bytes(log: SourceLog, segment: SegmentFile) -> SourceBytes:
    """Return a segment's bytes, which are fetched in pieces. Raises SourceUnreadable."""
    return SourceBytes(segment.path, sealed=log.is_sealed(segment))


def open_segment(
    log: SourceLog, segment: SegmentFile, records: list[Record] | None = None
) -> tuple[SourceBytes, SegmentScan]:
    """Open a segment: its bytes, and the walk over them for `walked`.

    Args:
        log: The log of the segment.
        segment: The segment.
        records: Gets the records of the current batch; clear it after each step.

    Raises:
        SourceUnreadable: The file cannot be opened.
    """
    source = segment_bytes(log, segment)
    inspect = None if records is None else (lambda _, record: records.append(record))
    walk = scan(
        source.content,
        base_offset=segment.base_offset,
        sealed=log.is_sealed(segment),
        decode=records is not None,
        next_base_offset=log.next_base_offset(segment),
        inspect=inspect,
        fetched=source,
    )
    return source, walk


def walked(source: SourceBytes, walk: SegmentScan) -> Iterator[ScannedBatch | Stretch]:
    """Yield the steps of a walk; bytes before a step are released. Raises SourceUnreadable, SourceChanged."""
    for item in walk:
        source.release(item.position)
        yield item
    source.refuse_change()


def steps(
    log: SourceLog, segment: SegmentFile, source: SourceBytes, walk: SegmentScan, notes: Notes
) -> Iterator[ScannedBatch | Stretch]:
    """Yield the steps of a walk, and report damage. They end where the file can no longer be read."""
    file = shown(segment.path)
    try:
        for item in walked(source, walk):
            if isinstance(item, Stretch):
                notes.say(stretch_finding(item, file))
            yield item
    except (SourceUnreadable, SourceChanged) as error:
        cannot_read(segment, error, notes)
        return
    accounting = walk.accounting
    if accounting.padding:
        notes.say(padding_finding(log, segment, accounting.file_size, accounting.padding))


def padding_finding(log: SourceLog, segment: SegmentFile, file_size: int, padding: int) -> Finding:
    """The finding for zeros up to the end: padding in a segment still being written, and a loss in any other."""
    file, position = shown(segment.path), file_size - padding
    rule = "zero-tail" if log.is_sealed(segment) else "zero-padding"
    message = f"{file}: the last {padding} bytes, from position {position}, are zeros."
    return found(rule, message, file=file, position=position, nbytes=padding)


def cannot_read(segment: SegmentFile, error: LogError, notes: Notes) -> None:
    """Report that a segment changed while it was read, was removed or cannot be read, and continue."""
    file = shown(segment.path)
    rule = "source-changed" if isinstance(error, SourceChanged) else "unreadable"
    notes.say(found(rule, str(error.at(file=file)), file=file))


def stretch_finding(stretch: Stretch, file: str) -> Finding:
    """The finding for bytes of a file that cannot be trusted."""
    if stretch.tail:
        message = f"{file}: {stretch.size} bytes from position {stretch.position} are a batch that was being written."
        return found("torn-tail", message, file=file, position=stretch.position, nbytes=stretch.size)
    message = (
        f"{file}: {stretch.size} bytes from position {stretch.position}, where offset {stretch.offset} was expected, "
        f"cannot be trusted: {stretch.message} ({stretch.reason})."
    )
    if stretch.unreadable:
        message = f"{message.removesuffix('.')}. The disk failed to read {stretch.unreadable} of them."
    elif stretch.hides is not None:
        message = f"{message.removesuffix('.')}. It is not an ordinary tail: {stretch.hides}."
    return found(
        stretch_rule(stretch),
        message,
        file=file,
        position=stretch.position,
        nbytes=stretch.size,
        start_offset=stretch.offset,
    )


def _facts(log: SourceLog) -> Iterator[BatchFact]:
    """Yield the facts that decide transactions, for every batch of a log; only headers and markers are read."""
    for segment in log.segments:
        try:
            for item in walked(*open_segment(log, segment)):
                yield fact_of(item, segment.path)
        except LogError:
            continue  # reported where the records are read
