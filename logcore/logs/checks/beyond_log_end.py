"""The message for a log that ends below its high watermark: committed offsets are missing at its end.

A checkpoint and a segment that were copied one after the other while a broker ran differ in the same way. So the
message has the mtimes of both files. If they are close, in the order of a running broker, the copy may be the cause.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from logcore.logs.model.findings import Finding, found
from logcore.logs.model.sources import SourceLog
from logcore.segments.filenames import HIGH_WATERMARK_FILE
from logcore.texts import shown

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def beyond_log_end(log: SourceLog, log_end: int, high_watermark: int) -> str:
    """Build one sentence, without its full stop.

    Args:
        log: The log.
        log_end: Offset after the last batch that can be read, or the log start if that is higher.
        high_watermark: The one that counts. Mtimes are known only for the one in the log's checkpoint.
    """
    lost = high_watermark - log_end
    above = log.segments and log_end == log.log_start_offset > log.segments[-1].base_offset
    text = f"the log ends at offset {log_end}{', its start, above all its batches' if above else ''}"
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


def times_of_change(high_watermark_ms: int, name: str, modified_ms: int) -> str:
    """When the checkpoint of high watermarks and the last segment were changed. Times are in epoch milliseconds."""
    return (
        f"{HIGH_WATERMARK_FILE} was written at {_time(high_watermark_ms)}, {name} changed last at {_time(modified_ms)}"
    )


def _time(time_ms: int) -> str:
    try:
        moment = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return f"{time_ms} ms"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
