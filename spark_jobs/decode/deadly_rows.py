"""Rows that end the process that decodes them are found and given up; all other rows are decoded.

A decoder of foreign bytes can be native code, and can end its process. A task whose workers died on both tries is run
again as two halves of its offsets, a half that dies as its own halves, until one row is left. Of that row first the
value is given up, then the key. A worker must survive that: otherwise it is not the decoder that ends workers, and the
log waits.

The tries are bounded. A task of n offsets is halved log2(n) times, and at most ``MOST_AT_ONCE`` tasks at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from logcore.values.undecodable import Reason
from spark_jobs.decode.decode_task import DecodeResult, DecodeTask
from spark_jobs.lake.decoded.topic_tables import UNDECODED, topic_table
from spark_jobs.lake.repair_commands import topic_command
from spark_jobs.tasks.executor import run_surviving

if TYPE_CHECKING:
    from spark_jobs.tasks.executor import Executor

MOST_AT_ONCE = 16
"""Tasks that are halved at a time. A run with more of them does not have some deadly rows: something else is wrong."""

_MOST_ROUNDS = 63 + 2
"""Offsets have 63 bits; then the value is given up, then the key."""


@dataclass(frozen=True, slots=True)
class _Tried:
    """A task and what came of it."""

    task: DecodeTask
    result: DecodeResult

    @property
    def following(self) -> list[DecodeTask]:
        """What to try instead."""
        return self.task.after_deaths() if self.result.died is not None else []


def surviving_results(
    executor: Executor | None, work: Callable[[DecodeTask], DecodeResult], tasks: Sequence[DecodeTask]
) -> list[DecodeResult]:
    """Run tasks and return their results, also of those whose workers die.

    Args:
        executor: None: this process.
        work: ``decode_rows``.
    """
    parts = [[each] for each in _tried(executor, work, tasks)]
    left = _within_bounds(parts, range(len(parts)))
    rounds = 0
    while left and rounds < _MOST_ROUNDS:
        rounds += 1
        results = iter(_tried(executor, work, [task for at in left for each in parts[at] for task in each.following]))
        for at in left:
            parts[at] = list(
                chain.from_iterable(list(islice(results, len(each.following))) or [each] for each in parts[at])
            )
        left = _within_bounds(parts, left)
    return [_together(each) for each in parts]


def given_up_rows(lake: str, topic: str, log_id: str, partition: int, start: int, end: int) -> dict[int, str]:
    """Return the rows of a log that ``undecoded/<topic>`` has because a worker died of them.

    Args:
        start: The first offset.
        end: The offset after the last one.

    Returns:
        ``key`` or ``value`` by offset.

    Raises:
        TableUnreadable: The table is damaged.
    """
    table = topic_table(lake, UNDECODED, topic)
    found: dict[int, str] = {}
    for file in table.files():
        holds = file.may_hold("log_id", log_id) and file.may_hold("partition", partition)
        if not (holds and file.may_reach("offset", start) and (file.min_offset is None or file.min_offset < end)):
            continue
        for batch in table.batches(file, ["log_id", "partition", "offset", "reason", "part"]):
            for row in batch.filter(_is_given_up(batch)).to_pylist():
                is_inside = row["log_id"] == log_id and row["partition"] == partition
                if is_inside and start <= row["offset"] < end:
                    found[row["offset"]] = row["part"]
    return found


def _is_given_up(batch: pa.RecordBatch) -> pa.BooleanArray:
    return pc.equal(batch["reason"].cast(pa.string()), pa.scalar(Reason.DECODER_DIED.value))


def _tried(
    executor: Executor | None, work: Callable[[DecodeTask], DecodeResult], tasks: Sequence[DecodeTask]
) -> list[_Tried]:
    results = run_surviving(
        executor, work, tasks, [task.size for task in tasks], lambda _, how: DecodeResult(was_plain=True, died=how)
    )
    return [_Tried(task, result) for task, result in zip(tasks, results, strict=True)]


def _within_bounds(parts: Sequence[Sequence[_Tried]], positions: Sequence[int]) -> list[int]:
    """The tasks that go on, in their order; one that is left out is not looked at again in this run."""
    left, chosen = MOST_AT_ONCE, []
    for at in positions:
        dying = sum(bool(each.following) for each in parts[at])
        if 0 < dying <= left:
            left -= dying
            chosen.append(at)
    return chosen


def _together(parts: Sequence[_Tried]) -> DecodeResult:
    """One result of parts in the order of offsets, up to the first stop."""
    stopped = next((at for at, each in enumerate(parts) if each.result.stop is not None), len(parts))
    parts = parts[: stopped + 1]
    for each in parts:
        if each.result.died is not None:
            return DecodeResult(error=_why(each.task, each.result.died))
        if each.result.error is not None:
            return each.result
    if len(parts) == 1:
        return parts[0].result
    reasons: dict[str, int] = {}
    for each in parts:
        for reason, rows in (each.result.reasons or {}).items():
            reasons[reason] = reasons.get(reason, 0) + rows
    return DecodeResult(
        tuple(file for each in parts for file in each.result.decoded),
        tuple(file for each in parts for file in each.result.undecoded),
        reasons,
        sum(each.result.rows for each in parts),
        stop=parts[-1].result.stop,
        was_plain=True,
    )


def _why(task: DecodeTask, how: str) -> str:
    """Why a log waits: what was tried before its workers died for good."""
    files = ", ".join(file.path for file in task.files[:3])
    start, end = task.offsets
    memory = "Where memory is short, run with fewer processes (LOGLAKE_PROCESSES)"
    if end - start > 1:
        return (
            f"the worker that decoded {files} {how}, also when it decoded row by row, and so did others: more than "
            f"{MOST_AT_ONCE} at a time are not tried again. {memory}"
        )
    if start < task.undecoded_from and start not in dict(task.given_up):
        return (
            f"the worker that decoded offset {start} {how}. An earlier run decoded it, and was killed before its last "
            f"commit. Run again, or decode all rows again: `{topic_command(task.lake, 'decode', task.span.topic)}`"
        )
    return f"the worker that read offset {start} of {files} {how}, also when it did not decode the row. {memory}"
