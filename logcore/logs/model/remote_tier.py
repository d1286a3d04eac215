"""Offsets below a log's first local segment: in the remote tier (KIP-405), or gone.

With tiered storage a broker writes an offset below the first local segment into `log-start-offset-checkpoint`, because
its log begins there. After deleteRecords and retention the file has such an offset too, until the next checkpoint: it
is stale. The leader epochs show which. They are cut where the log begins: at the first local segment if the rest is
gone, below it if the rest is remote. So both files must show it. If `leader-epoch-checkpoint` is missing, nothing shows
it: the offsets are not called trimmed.

Sources: Kafka LogManager.checkpointLogStartOffsetsInDir, UnifiedLog.maybeIncrementLogStartOffset,
LeaderEpochFileCache.truncateFromStart.
"""

from __future__ import annotations

from collections.abc import Sequence

from logcore.logs.model.findings import Finding, found
from logcore.logs.model.offset_ledger import EVIDENCE_NO_EPOCHS, EVIDENCE_REMOTE, EVIDENCE_STALE_START, OF_REMOTE
from logcore.segments.side_files.leader_epochs import EpochEntry

Range = tuple[int, int, str]
"""Start, end (exclusive) and what is known of the offsets between."""


def below_start(line: int | None, first_base: int | None, epochs: Sequence[EpochEntry] | None) -> tuple[Range, ...]:
    """What is known of the offsets between the log start in a checkpoint and the first local segment.

    Args:
        line: The offset in the checkpoint; None without one.
        first_base: Base offset of the first local segment; None without one.
        epochs: The history of leader epochs; None if its file is missing or cannot be read.
    """
    if line is None or first_base is None or line >= first_base:
        return ()
    if epochs is None:
        return ((line, first_base, EVIDENCE_NO_EPOCHS),)
    is_remote = bool(epochs) and epochs[0].start_offset < first_base
    return ((line, first_base, EVIDENCE_REMOTE if is_remote else EVIDENCE_STALE_START),)


def remote_range(known: Sequence[Range]) -> Range | None:
    """The offsets in the remote tier, or perhaps there, as `below_start` found them; None if there are none."""
    return next((each for each in known if each[2] in OF_REMOTE), None)


def remote_finding(name: object, known: Range, *, is_searched: bool = False) -> Finding:
    """The finding for offsets of a topic partition that are only in the remote tier, or perhaps there.

    Args:
        name: The topic partition.
        known: The offsets, as `remote_range` returned them.
        is_searched: Whether remote storage was read, and no segment that can be used has them.
    """
    start, end, why = known
    if why == EVIDENCE_NO_EPOCHS:
        message = (
            f"{name}: offsets {start} to {end - 1} are in the remote tier or were deleted; leader-epoch-checkpoint, "
            f"which would show it, is missing or broken. What is read begins at offset {end}."
        )
        return found("remote-tier-unproven", message, start_offset=start, end_offset=end)
    where = f"{name}: offsets {start} to {end - 1} are in the remote tier"
    if is_searched:
        message = f"{where}, and not all segments up to there can be used; what is read begins at offset {end}."
    else:
        message = f"{where}, and no remote storage is named (--remote); the local part begins at offset {end}."
    return found("remote-tier", message, start_offset=start, end_offset=end)
