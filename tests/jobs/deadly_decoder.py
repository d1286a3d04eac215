"""Decoders whose process dies: of every task that is not plain, of every task of a log, or of rows of a certain text.

Rows with ``DEADLY`` are deadly where their bytes reach a decoder, so code that passes them on is found out.
"""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from logcore.values.evolution import written_column
from spark_jobs.decode import split_rows
from spark_jobs.decode.decode_task import DecodeResult, DecodeTask, decode_rows
from spark_jobs.engine.executor import Result, Task, WorkerDied, perform, second_try

DEADLY = b"deadly"


def dies_unless_plain(task: DecodeTask) -> DecodeResult:
    """Die of partition 1 as native code does, unless rows are decoded the plain way."""
    if task.span.partition == 1 and not task.is_plain:
        _died(task)
    return decode_rows(task)


def always_dies(task: DecodeTask) -> DecodeResult:
    """Die of partition 1, whatever is tried."""
    if task.span.partition == 1:
        _died(task)
    return decode_rows(task)


def dies_of_a_row(task: DecodeTask) -> DecodeResult:
    """Die where a decoder gets a key or value with ``DEADLY``, both ways."""
    with _deadly(lambda: _died(task)):
        return decode_rows(task)


class Death(BaseException):
    """The end of a worker, where that is the process of a test."""


class MortalExecutor:
    """Runs tasks in the process of the test. Like workers they die, and are tried once more. `tried` counts them."""

    def __init__(self) -> None:
        self.tried = 0

    def run(
        self, work: Callable[[Task], Result], tasks: Sequence[Task], sizes: Sequence[int] | None = None
    ) -> list[Result]:
        """As :meth:`spark_jobs.engine.executor.Executor.run`."""
        results: dict[int, Any] = {}
        died: dict[int, str] = {}
        for at, task in enumerate(tasks):
            for each in (task, second_try(task)):
                self.tried += 1
                try:
                    with _deadly(_die):
                        results[at] = perform(work, pickle.loads(pickle.dumps(each)))
                    break
                except Death:
                    continue
            else:
                died[at] = "died"
        if died:
            raise WorkerDied("died", died, results)
        return [results[at] for at in range(len(tasks))]


def _die() -> None:
    raise Death


@contextmanager
def _deadly(die: Callable[[], None]) -> Iterator[None]:
    """Decoders of columns end the process if a row has ``DEADLY``."""
    places = [(module, name) for module in (split_rows, written_column) for name in _WAYS]
    real = {place: getattr(*place) for place in places}

    def guarded(way: Callable[..., Any]) -> Callable[..., Any]:
        def decode(decoder: Any, bodies: pa.Array[Any]) -> Any:
            if any(body is not None and DEADLY in body for body in bodies.to_pylist()):
                die()
            return way(decoder, bodies)

        return decode

    for (module, name), way in real.items():
        setattr(module, name, guarded(way))
    try:
        yield
    finally:
        for (module, name), way in real.items():
            setattr(module, name, way)


_WAYS = ("decode_column", "decode_column_plainly")


def _died(task: DecodeTask) -> None:
    with Path(task.lake).with_name("deaths").open("a") as deaths:
        deaths.write("plain\n" if task.is_plain else "fast\n")
    os.kill(os.getpid(), signal.SIGSEGV)
