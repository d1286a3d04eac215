"""A worker process of :mod:`spark_jobs.engine.local_executor`: reads tasks from a pipe, writes results to it.

    driver → worker    a list of (work, task)                                         pickled
    worker → driver    for each of them, one after another:                           pickled
                       (True, result, files to sync) or (False, error text, trace)

Its standard input is a pipe that the driver never writes to. That pipe closes when the driver ends, in whatever way,
and the worker ends at once, even in the middle of a task. Both sides are the same program on the same machine: each
trusts what the other sends.
"""

from __future__ import annotations

import importlib
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from spark_jobs.engine.executor import is_synced_late, perform
from spark_jobs.engine.no_pandas import NoPandas
from spark_jobs.lake.store.disk_sync import Unsynced, late_syncs

LIKELY_MODULES = (
    "numpy",
    "pyarrow",
    "pyarrow.compute",
    "logcore.columns.engines",
    "spark_jobs.lake.segments.archive",
    "spark_jobs.ingest.taken_segment",
)


def serve(pipe: Connection) -> None:
    """Run tasks until the driver closes its end of the pipe."""
    while True:
        try:
            tasks = pickle.loads(pipe.recv_bytes())
        except EOFError:
            return
        answers = [_answer_or_error(work, task) for work, task in tasks]
        try:
            pipe.send_bytes(b"".join(answers))
        except (BrokenPipeError, ConnectionResetError):
            return


def _answer_or_error(work: Callable[[Any], Any], task: object) -> bytes:
    try:
        return pickle.dumps(_answer(work, task))
    except Exception as error:  # noqa: BLE001 - the driver decides what an error of any kind means for the job
        trace = "".join(traceback.format_exception(error))
        return pickle.dumps((False, f"{type(error).__name__}: {error}", trace))


def _answer(work: Callable[[Any], Any], task: object) -> tuple[bool, Any, Unsynced]:
    if not is_synced_late(work):
        return True, perform(work, task), Unsynced()
    with late_syncs() as unsynced:
        return True, perform(work, task), unsynced


def load_while_idle(pipe: Connection) -> None:
    """Load what most tasks need, until the first task comes."""
    for name in LIKELY_MODULES:
        if pipe.poll():
            return
        importlib.import_module(name)


def _end_with_the_driver() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)


def main() -> None:
    """Serve the pipe whose file descriptor is the one argument."""
    sys.meta_path.insert(0, NoPandas)  # for good: no task needs it
    # Ctrl-C reaches the whole process group. The driver ends its workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_driver, daemon=True).start()
    # What a library prints must not become output of the command.
    os.dup2(2, 1)
    pipe = Connection(int(sys.argv[1]))
    load_while_idle(pipe)
    serve(pipe)


if __name__ == "__main__":
    main()
