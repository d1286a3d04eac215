"""Offsets below a log's first local segment: in the remote tier (KIP-405), or gone.

With tiered storage a broker writes an offset below the first local segment into `log-start-offset-checkpoint`, because
its log begins there. After deleteRecords and retention the file has such an offset too, until the next checkpoint: it
is stale. The leader epochs show which. They are cut where the log begins: at the first local segment if the rest is
gone by the broker's own work, below it if the rest is remote, or if somebody else removed it.

The last two look the same in both files. So the offsets are `remote` only if a remote tier left a sign
(`logcore.storage.broker_state`), and else `missing`. A broker with tiered storage makes `remote-log-index-cache`
when it starts, and `__remote_log_metadata` has the segments that it copied. If `leader-epoch-checkpoint` is missing,
nothing shows that the offsets are trimmed: they are not called so.

Index files without a segment prove that somebody removed the segment: a broker renames all files of a segment.

Sources: Kafka LogManager.checkpointLogStartOffsetsInDir, UnifiedLog.maybeIncrementLogStartOffset,
LeaderEpochFileCache.truncateFromStart, RemoteIndexCache, LogSegment.changeFileSuffixes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from logcore.errors import CorruptIndexError
from logcore.logs.model.findings import Finding, found
from logcore.logs.model.offset_ledger import (
    EVIDENCE_NO_EPOCHS,
    EVIDENCE_NO_SIGN,
    EVIDENCE_REMOTE,
    EVIDENCE_REMOVED,
    EVIDENCE_STALE_START,
    OF_REMOTE,
    OF_REMOVED,
)
from logcore.logs.model.partition_directory import PartitionDirectory
from logcore.segments.filenames import LEADER_EPOCH_FILE
from logcore.segments.side_files.checkpoints import parse_leader_epochs
from logcore.segments.side_files.leader_epochs import EpochEntry, Epochs
from logcore.segments.startup import orphaned_bases

Range = tuple[int, int, str]
"""Start, end (exclusive) and what is known of the offsets between."""


def below_start(
    line: int | None,
    first_base: int | None,
    epochs: Sequence[EpochEntry] | None,
    orphaned: Collection[int],
    is_tiered: Callable[[], bool],
) -> tuple[Range, ...]:
    """What is known of the offsets between the log start and the first local segment.

    Args:
        line: The log start in a checkpoint; None without one. Then the log begins where its leader epochs begin, or at
            its first index file.
        first_base: Base offset of the first local segment; None without one.
        epochs: The history of leader epochs; None if its file is missing or cannot be read.
        orphaned: Base offsets of index files whose segment is gone.
        is_tiered: Whether there is a sign of a remote tier; called only if it matters.
    """
    begins = [line] if line is not None else [entry.start_offset for entry in epochs or ()][:1] or sorted(orphaned)[:1]
    if first_base is None or not begins or begins[0] >= first_base:
        return ()
    start, is_removed = begins[0], any(base < first_base for base in orphaned)
    if epochs is not None and (epochs[0].start_offset >= first_base if epochs else not is_removed):
        why = EVIDENCE_STALE_START
    elif line is not None and is_tiered():
        why = EVIDENCE_NO_EPOCHS if epochs is None else EVIDENCE_REMOTE
    else:
        why = EVIDENCE_REMOVED if is_removed else EVIDENCE_NO_SIGN
    return ((start, first_base, why),)


def below_start_of(directory: PartitionDirectory) -> tuple[Range, ...]:
    """What `below_start` finds for a partition directory."""
    return below_start(
        directory.log_start_offset,
        min(directory.base_offsets, default=None),
        epochs_of(directory),
        orphaned_bases(directory.files),
        lambda: directory.is_tiered,
    )


def epochs_of(directory: PartitionDirectory) -> Epochs | None:
    """The history of leader epochs in a directory; None if its file is missing or broken."""
    file = directory.files.get(LEADER_EPOCH_FILE)
    try:
        return None if file is None else parse_leader_epochs(bytes(file.content))
    except CorruptIndexError:
        return None


def remote_range(known: Sequence[Range]) -> Range | None:
    """The offsets in the remote tier, or perhaps there, as `below_start` found them; None if there are none."""
    return next((each for each in known if each[2] in OF_REMOTE), None)


def removed_range(known: Sequence[Range]) -> Range | None:
    """The missing offsets below the first segment, as `below_start` found them; None if there are none."""
    return next((each for each in known if each[2] in OF_REMOVED), None)


def removed_because(why: str) -> str:
    """What may explain that offsets are missing below the first segment, for a person.

    Args:
        why: Their evidence, one of `OF_REMOVED`.
    """
    if why == EVIDENCE_REMOVED:
        return "deleted by hand: index files of segments are left whose .log files are gone"
    return "deleted by hand, or in a remote tier that left no sign"


def below_start_finding(name: object, known: Range, *, is_searched: bool = False) -> Finding:
    """The finding for offsets of a topic partition that are below its first segment and not trimmed.

    Args:
        name: The topic partition.
        known: The offsets, as `remote_range` or `removed_range` returned them.
        is_searched: Whether remote storage was read, and no segment that can be used has them.
    """
    start, end, why = known
    if why in OF_REMOVED:
        message = (
            f"{name}: offsets [{start}, {end}) are missing: {removed_because(why)}. The log began at offset {start}, "
            f"and its first segment begins at offset {end}."
        )
        return found("missing-offsets", message, start_offset=start, end_offset=end)
    if why == EVIDENCE_NO_EPOCHS:
        message = (
            f"{name}: offsets [{start}, {end}) are in the remote tier or were deleted; leader-epoch-checkpoint, "
            f"which would show it, is missing or broken. What is read begins at offset {end}."
        )
        return found("remote-tier-unproven", message, start_offset=start, end_offset=end)
    where = f"{name}: offsets [{start}, {end}) are in the remote tier"
    if is_searched:
        message = f"{where}, and not all segments up to there can be used; what is read begins at offset {end}."
    else:
        message = f"{where}, and no remote storage is named (--remote); the local part begins at offset {end}."
    return found("remote-tier", message, start_offset=start, end_offset=end)
