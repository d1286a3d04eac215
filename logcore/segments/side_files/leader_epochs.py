"""The history of leader epochs of a log: which leader wrote from which offset on.

Entries rise in epoch and in start offset; each epoch ends where the next begins, the last one at the log end. Replicas
compare these histories to find where they part (KIP-101, KIP-279). Brokers keep them in `leader-epoch-checkpoint`
(its bytes: `checkpoints.py`); here are the rules by which a history changes, as functions that return a new one.

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
    """The history after a leader of this epoch began to write at this offset.

    Nothing changes for the latest epoch, unless it begins lower than was known. What contradicts the new entry is
    dropped from the end: epochs as high, and those that begin at or above it. ValueError for a negative argument.
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
    """The history of a log that was cut at an offset: epochs that begin at or above it are gone."""
    if not epochs or end_offset < 0 or epochs[-1].start_offset < end_offset:
        return epochs
    return tuple(entry for entry in epochs if entry.start_offset < end_offset)


def truncate_from_start(epochs: Epochs, start_offset: int) -> Epochs:
    """The history of a log that now begins at an offset: the epoch it begins in is kept, and begins there."""
    passed = [entry for entry in epochs if entry.start_offset <= start_offset]
    if not passed:
        return epochs
    return (EpochEntry(passed[-1].epoch, start_offset), *epochs[len(passed) :])


def epoch_for_offset(epochs: Sequence[EpochEntry], offset: int) -> int | None:
    """The epoch in which an offset was written, or None if the entries begin above it."""
    return next((entry.epoch for entry in reversed(epochs) if entry.start_offset <= offset), None)


def end_offset_for(epochs: Sequence[EpochEntry], epoch: int, log_end_offset: int) -> tuple[int, int]:
    """Where an epoch ends in this log, as `(epoch, end offset)`; (-1, -1) where the log cannot tell.

    For an epoch the log never saw, the answer is the nearest lower epoch with its end, or (epoch, first start) where
    there is none lower.
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
