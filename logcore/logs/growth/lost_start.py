"""A log whose start is lost: `log-start-offset-checkpoint`, or its line, is gone, and deleted records show again.

deleteRecords moves the log start into a segment. The broker writes it there, and cuts the leader epochs there at once
(UnifiedLog.maybeIncrementLogStartOffset, LeaderEpochFileCache.truncateFromStart). So the first entry of
`leader-epoch-checkpoint` is above the first batch, and has the leader epoch of the batches before it. An entry with
another leader epoch than these proves nothing: old formats have none, and the file may be younger than the log. Nor
does a checkpoint that is older than the epochs: a timer writes it, each minute by default.
"""

from __future__ import annotations

from contextlib import suppress

from logcore.errors import LogError
from logcore.logs.growth.agreement import SourceReader
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.sources import SourceLog
from logcore.segments.filenames import LOG_START_FILE
from logcore.texts import shell_word, shown


def lost_start(log: SourceLog, reader: SourceReader) -> int | None:
    """Where a log begins by its leader epochs, which begin above its log start; None if they do not prove it."""
    first = log.leader_epochs[0]
    below = [segment for segment in log.segments if segment.base_offset < first.start_offset]
    epoch, is_reached = None, len(below) < len(log.segments)
    with suppress(LogError):
        for _, header in reader.headers(below[-1]) if below else ():
            is_reached |= header is not None and header.next_offset >= first.start_offset
            if header is None or header.base_offset >= first.start_offset:
                break
            epoch = header.partition_leader_epoch
    return first.start_offset if is_reached and epoch == first.epoch else None


def lost_start_finding(log: SourceLog, start: int) -> Finding:
    """The finding that a log began at an offset above its log start."""
    name, directory = log.topic_partition, shown(log.directory)
    message = (
        f"{name}: the log began at offset {start}, and {LOG_START_FILE} does not state it any more. The log is read "
        f"from offset {log.log_start_offset} on, with records that were deleted."
    )
    if "://" not in directory:
        new = f"--out {shell_word(f'new/{name}')} --checkpoints-out new"
        command = f"loglake recover {shell_word(directory)} --log-start-offset {start} {new}"
        message += f" `{command}` makes a copy that begins there."
    return found("log-start-fell", message, file=directory, start_offset=log.log_start_offset, end_offset=start)
