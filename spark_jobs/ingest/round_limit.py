"""What one round of a large load takes in: a part of a plan that is large enough for good speed, and not larger.

A round is ingested, validated and published before the next one begins. What kills a run, or exceeds a limit of the
machine, so costs one round. A log may be taken in several rounds, segment by segment from its end, as if it had grown
between them. The tables at the end are the same.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from spark_jobs.ingest.log_growth import IngestLogPlan
from spark_jobs.tasks.segment_copy import CopyTask
from spark_jobs.tasks.task_groups import SHARED_BYTES, SHARED_TASKS, shared


@dataclass(frozen=True, slots=True)
class Left:
    """What a round leaves to the next ones."""

    copies: int = 0
    nbytes: int = 0
    topic_partitions: tuple[str, ...] = ()
    """Of which there is something left."""


NOTHING_LEFT = Left()


@dataclass(slots=True)
class _Room:
    """What still fits into a round. Small copies share a task, as they do when they run."""

    nbytes: float
    tasks: float
    _shared_bytes: int = 0
    _shared_copies: int = 0
    _is_new: bool = True
    _is_full: bool = False

    def take(self, *copies: CopyTask) -> bool:
        """Take these copies together, if they fit.

        What comes first in a round always fits. After something that did not fit nothing fits.
        """
        nbytes = sum(task.bytes_to_read for task in copies)
        joins = nbytes <= self._shared_bytes and len(copies) <= self._shared_copies
        started = 0 if joins else len(shared(len(copies), [task.bytes_to_read for task in copies]))
        self._is_full |= not self._is_new and (nbytes > self.nbytes or started > self.tasks)
        if self._is_full:
            return False
        self._is_new = False
        self.nbytes -= nbytes
        self.tasks -= started
        if started:
            self._shared_bytes, self._shared_copies = SHARED_BYTES, SHARED_TASKS
        self._shared_bytes -= nbytes
        self._shared_copies -= len(copies)
        return True


def first_round(
    plans: Sequence[IngestLogPlan], max_bytes: int | None, max_tasks: int | None
) -> tuple[list[IngestLogPlan], Left]:
    """Return the plans of the first round and what it leaves.

    Logs are taken in their order. Segments of a log that are swapped are taken together. Plans without copies are all
    taken. Copies for offsets that were left in the remote tier come last: those that fail must not hinder growth.

    Args:
        plans: By log.
        max_bytes: Bytes that a round reads; None: no limit. At least one copy is taken.
        max_tasks: Tasks that a round starts; small copies share one. None: no limit.
    """
    room = _Room(math.inf if max_bytes is None else max_bytes, math.inf if max_tasks is None else max_tasks)
    taken: list[IngestLogPlan] = []
    left: list[CopyTask] = []
    unfinished: list[str] = []
    begun: list[tuple[IngestLogPlan, list[CopyTask], bool, list[CopyTask]]] = []
    for plan in plans:
        swapped = [part.task for swap in plan.swaps for part in swap.parts]
        fits = not swapped or room.take(*swapped)
        kept = list(itertools.takewhile(room.take, plan.tasks)) if fits else []
        begun.append((plan, swapped, fits, kept))
    for plan, swapped, fits, kept in begun:
        remote = list(itertools.takewhile(room.take, plan.remote)) if fits else []
        rest = (*plan.remote[len(remote) :], *plan.tasks[len(kept) :])
        if not fits:
            left += swapped
        left += rest
        if fits and not rest:
            taken.append(plan)
            continue
        unfinished.append(plan.observed.topic_partition)
        if kept or remote or (fits and swapped):
            # The high watermark is above the end of this round: that is no loss while more follows.
            taken.append(replace(plan, remote=tuple(remote), tasks=tuple(kept), waits=True))
    return taken, Left(len(left), sum(task.bytes_to_read for task in left), tuple(unfinished))
