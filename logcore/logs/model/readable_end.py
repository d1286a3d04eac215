"""Up to which offset consumers may read a log.

    high watermark        the stated one, moved into [log start, log end]; the log end where none is stated
    last stable offset    the first offset of the oldest open transaction, moved into [log start, high watermark];
                          the high watermark where none is open
    readable end          the high watermark for read_uncommitted, the last stable offset for read_committed

A stated high watermark can lie outside of its log: a broker writes its checkpoint files one after the other, and a log
can be damaged or cut.

Source: Kafka UnifiedLog.updateHighWatermark, maybeIncrementFirstUnstableOffset, lastStableOffset; KIP-98.
Belongs here: the offsets. Does not: where the stated number is read (`logcore.storage.broker_state`), and which
transactions are open (`logcore.logs.model.transactions`).
"""

from __future__ import annotations

from logcore.segments.filenames import MAX_OFFSET


def high_watermark(stated: int | None, *, log_start_offset: int = 0, log_end_offset: int = MAX_OFFSET) -> int:
    """The high watermark that counts for a log.

    Args:
        stated: what a checkpoint, an option or a table says; None where nothing does.
        log_start_offset: first offset that consumers may read; 0 leaves this bound out.
        log_end_offset: offset after the last batch; `MAX_OFFSET` while it is not known.

    Returns:
        An offset from the log start to the log end; the log end if that lies below the log start.
    """
    return min(max(log_end_offset if stated is None else stated, log_start_offset), log_end_offset)


def last_stable_offset(first_unstable: int | None, *, high_watermark: int, log_start_offset: int = 0) -> int:
    """The offset below which the outcome of every transaction is decided.

    Args:
        first_unstable: first offset of the oldest open transaction; None without one.
        high_watermark: the one that counts.
        log_start_offset: first offset that consumers may read; 0 leaves this bound out.

    Returns:
        An offset that is at most the high watermark.
    """
    if first_unstable is None:
        return high_watermark
    return min(max(first_unstable, log_start_offset), high_watermark)
