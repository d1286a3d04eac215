"""The message for a log that ends below its high watermark: committed offsets are missing at its end.

A checkpoint and a segment that were copied one after the other while a broker ran differ in the same way. So the
message has the mtimes of both files. If they are close, in the order of a running broker, the copy may be the cause.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from logcore.logs.model.findings import Finding, found
from logcore.logs.model.sources import SourceLog
from logcore.segments.filenames import HIGH_WATERMARK_FILE, LOG_START_FILE
from logcore.texts import shell_word, shown, time_text


def beyond_log_end(log: SourceLog, log_end: int, high_watermark: int) -> str:
    """Build one sentence, without its full stop.

    Args:
        log: The log.
        log_end: Offset after the last batch that can be read, or the log start if that is higher.
        high_watermark: The one that counts. Mtimes are known only for the one in the log's checkpoint.
    """
    lost = high_watermark - log_end
    above = log.segments and log_end == log.log_start_offset > log.segments[-1].base_offset
    text = (
        f"the log has no batch from its start at offset {log_end} on" if above else f"the log ends at offset {log_end}"
    )
    text += f"; committed offsets from there on are missing: {lost}"
    if high_watermark != log.high_watermark or log.high_watermark_ms is None or not log.segments:
        return text
    last = log.segments[-1]
    return f"{text}. {times_of_change(log.high_watermark_ms, os.path.basename(last.path), last.modified_ms)}"


def beyond_finding(log: SourceLog, log_end: int, high_watermark: int) -> Finding:
    """Build the finding of a command that reads the log. Arguments as for `beyond_log_end`."""
    return found(
        "high-watermark-beyond-log-end",
        f"{log.topic_partition}: {beyond_log_end(log, log_end, high_watermark)}.",
        file=shown(log.directory),
        start_offset=log_end,
        end_offset=high_watermark,
    )


@dataclass(frozen=True, slots=True)
class StatedEnd:
    """What a file beside a log says of its end.

    Attributes:
        what: What it has, as the subject of a sentence.
        offset: The log reaches up to it, or further.
        file: The file, or the directory of the log.
        then: What follows from an end below it, after a semicolon; empty: nothing more.
    """

    what: str
    offset: int
    file: str
    then: str = ""


def stated_ends(log: SourceLog) -> Iterator[StatedEnd]:
    """Yield what the files beside a log say of its end, apart from the high watermark."""
    if log.named_files:
        return
    for offset, path in log.snapshots:
        yield StatedEnd("a producer snapshot", offset, path)
    if log.leader_epochs:
        yield StatedEnd("the last leader epoch", log.leader_epochs[-1].start_offset, log.directory)
    if log.recovery_point is not None:
        yield StatedEnd("the recovery point", log.recovery_point, log.directory)
    if log.cleaner_checkpoint is not None:
        yield StatedEnd("the cleaner's checkpoint", log.cleaner_checkpoint, log.directory)
    what, then = f"the log start in {LOG_START_FILE}", ""
    if log.segments:
        then, first, name = "; a broker's start drops all its batches", log.segments[0].base_offset, log.topic_partition
        if "://" not in log.directory:
            then += f". If the file is wrong, `loglake recover {shell_word(log.directory)} --log-start-offset {first} "
            then += f"--out {shell_word(f'new/{name}')} --checkpoints-out new` makes a copy that keeps them"
    yield StatedEnd(what, log.log_start_offset, log.directory, then)


def cut_ends(ends: Iterable[StatedEnd], log_end: int, name: str = "") -> Iterator[Finding]:
    """Yield a finding about each stated end above the end of the log.

    Args:
        ends: Of the log.
        log_end: Offset after the last batch that can be read.
        name: Of the log, where the place of a finding does not show it.
    """
    for end in ends:
        if end.offset > log_end:
            message = f"{end.what} is at offset {end.offset}, the log ends at {log_end}; its end may have been cut off"
            message = f"{name}: {message}{end.then}." if name else f"{message}{end.then}"
            yield found(
                "checkpoint-beyond-log-end", message, file=end.file, start_offset=log_end, end_offset=end.offset
            )


def times_of_change(high_watermark_ms: int, name: str, modified_ms: int) -> str:
    """When the checkpoint of high watermarks and the last segment were changed. Times are in epoch milliseconds."""
    written, changed = time_text(high_watermark_ms), time_text(modified_ms)
    return f"{HIGH_WATERMARK_FILE} was written at {written}, {name} changed last at {changed}"
