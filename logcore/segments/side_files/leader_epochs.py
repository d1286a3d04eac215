"""The history of leader epochs of a log: which leader wrote from which offset on.

Entries increase in epoch and in start offset. Each epoch ends where the next begins, the last one at the log end.
Replicas compare these histories to find where they diverge (KIP-101, KIP-279). Brokers keep them in
`leader-epoch-checkpoint` (its bytes: `checkpoints.py`). Here are the rules that change a history, as functions that
return a new one.

Source: Kafka LeaderEpochFileCache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


@dataclass(frozen=True, slots=True, order=True)
class EpochEntry:
    """The first offset that a leader wrote in an epoch."""

    epoch: int
    start_offset: int


Epochs = tuple[EpochEntry, ...]


def assign(epochs: Epochs, epoch: int, start_offset: int) -> Epochs:
    """Add an entry: a leader of this epoch began to write at this offset.

    Nothing changes for the latest epoch, unless it begins lower than known. Entries that contradict the new one are
    removed from the end: epochs that are as high, and epochs that begin at or above its offset.

    Raises:
        ValueError: An argument is negative.
    """
    if epoch < 0 or start_offset < 0:
        raise ValueError(f"epoch {epoch} from offset {start_offset}: neither may be negative")
    if epochs and epoch == epochs[-1].epoch and start_offset >= epochs[-1].start_offset:
        return epochs
    kept = epochs
    while kept and (kept[-1].epoch >= epoch or kept[-1].start_offset >= start_offset):
        kept = kept[:-1]
    return (*kept, EpochEntry(epoch, start_offset))


def truncate_from_end(epochs: Epochs, end_offset: int) -> Epochs:
    """Cut a log at an offset: epochs that begin at or above it are removed."""
    if not epochs or end_offset < 0 or epochs[-1].start_offset < end_offset:
        return epochs
    return tuple(entry for entry in epochs if entry.start_offset < end_offset)


def truncate_from_start(epochs: Epochs, start_offset: int) -> Epochs:
    """Move the start of a log to an offset: the epoch of that offset is kept, and now begins there."""
    passed = [entry for entry in epochs if entry.start_offset <= start_offset]
    if not passed:
        return epochs
    return (EpochEntry(passed[-1].epoch, start_offset), *epochs[len(passed) :])


def epoch_for_offset(epochs: Sequence[EpochEntry], offset: int) -> int | None:
    """The epoch in which an offset was written, or None if the entries begin above it."""
    return next((entry.epoch for entry in reversed(epochs) if entry.start_offset <= offset), None)


def end_offset_for(epochs: Sequence[EpochEntry], epoch: int, log_end_offset: int) -> tuple[int, int]:
    """Find where an epoch ends in this log.

    Returns:
        `(epoch, end offset)`, or (-1, -1) if the log does not show it. For an epoch that the log never had, the nearest
        lower epoch and its end; if there is no lower one, (epoch, first start).
    """
    undefined = (UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)
    if epoch == UNDEFINED_EPOCH or not epochs:
        return undefined
    if epoch == epochs[-1].epoch:
        return epoch, log_end_offset
    higher = next((entry for entry in epochs if entry.epoch > epoch), None)
    if higher is None:
        return undefined
    floor = next((entry for entry in reversed(epochs) if entry.epoch <= epoch), None)
    return (epoch if floor is None else floor.epoch), higher.start_offset
