"""Independent tasks in worker processes of this machine, without a JVM.

start      a worker is a Python process that imports the function it runs by name: 0.6 s until the first task
order      large tasks first, results in the order of the tasks
memory     one task at a time in each worker, one worker for each core; a worker that grew too large is replaced
death      a task whose worker dies runs once more, when no other task runs: memory may have been short. Some tasks
           are then done in another way (``second_try``). If its worker dies again, the error names the task. All
           other tasks run to their end first.
disk       files of tasks that allow it are synced by threads here, while the workers go on (`FileSyncs`)
progress   each task that is done is counted, with the bytes that it read, and reported
cancel     an exception in the driver, an interrupt too, kills the workers: tasks may be killed at any moment
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

from logcore.columns.kernels.library import ENGINE_VARIABLE, is_chosen
from logcore.storage.machine import processors
from spark_jobs.engine.executor import Result, Task, TaskFailed, WorkerDied, bound, second_try
from spark_jobs.engine.task_progress import OnProgress, TaskCounter
from spark_jobs.lake.store.disk_sync import Unsynced, sync, sync_all
from spark_jobs.reads import reads

LARGE_BYTES = 4 << 20
_THREADS = 2
"""A disk writes one file after another, but a second thread hides the pauses between two."""


@dataclass(slots=True)
class FileSyncs:
    """A context: at its end everything that was added is on disk.

    Large files are synced at once, because the disk needs time for them. Small ones wait for the end, where many are
    synced together.

    Raises:
        OSError: At its end: the disk failed to write a file.
    """

    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(_THREADS))
    _begun: list[Future[None]] = field(default_factory=list)
    _waiting: list[str] = field(default_factory=list)
    _directories: set[str] = field(default_factory=set)

    def add(self, unsynced: Unsynced) -> None:
        """Sync these files, and their directories at the end."""
        self._directories |= unsynced.directories
        for file in unsynced.files:
            if os.path.getsize(file) >= LARGE_BYTES:
                self._begun.append(self._threads.submit(sync, file))
            else:
                self._waiting.append(file)

    def __enter__(self) -> FileSyncs:
        """Return it."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait until everything is on disk; after an error nothing refers to the files, and nothing waits."""
        if kind is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            return
        try:
            for each in self._begun:
                each.result()
            sync_all([*self._waiting, *sorted(self._directories)])
        finally:
            self._threads.shutdown(wait=False, cancel_futures=True)


WORKER_BYTES = 512 << 20
"""Resident memory from which an idle worker is replaced by a new one."""
GROUP_TASKS = 8
"""A worker gets so many small tasks at once: a message and its answer cost as much as a very small task."""
GROUP_BYTES = 2 << 20
"""The bytes of such tasks together."""
_MODULE = "spark_jobs.engine.local_worker"


@dataclass(slots=True)
class _Worker:
    process: subprocess.Popen[bytes]
    pipe: Connection

    @classmethod
    def start(cls) -> _Worker:
        ours, theirs = Pipe()
        # A worker finds the packages where this process does, whatever put them on its path.
        packages = {"PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)}
        if ENGINE_VARIABLE not in os.environ and not is_chosen():
            packages[ENGINE_VARIABLE] = "reference"  # this process has warned; its workers do not repeat it
        with theirs:
            process = subprocess.Popen(
                # -P: a folder with the name of a package in the current directory is no package.
                [sys.executable, "-P", "-m", _MODULE, str(theirs.fileno())],
                stdin=subprocess.PIPE,  # never written to: its end is the end of this process
                pass_fds=[theirs.fileno()],
                env=os.environ | packages,
            )
        return cls(process, ours)

    def stop(self) -> None:
        """Kill the process and wait for its end."""
        self.process.kill()
        self.process.wait()
        self.close()

    def close(self) -> None:
        """Close what connects this process with one that has ended."""
        self.pipe.close()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def resident_bytes(self) -> int:
        """Memory that the process uses now; 0 where the system does not report it."""
        try:
            pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        except (OSError, IndexError, ValueError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class _Queued:
    """A task that waits for a worker."""

    work: Callable[[Any], Any]
    task: Any
    at: int
    """Its position among the tasks of the job."""
    size: int | None = None
    """Bytes of the work; None: not known."""


def _next_group(waiting: deque[_Queued], processes: int) -> list[_Queued]:
    """Take the next task, and small ones after it, as long as enough is left for all workers."""
    group = [waiting.popleft()]
    left = GROUP_BYTES
    most = min(GROUP_TASKS, 1 + len(waiting) // (2 * processes))
    while len(group) < most:
        size, following = group[-1].size, waiting[0].size
        if size is None or following is None or size + following > left:
            break
        left -= size
        group.append(waiting.popleft())
    return group


@dataclass(slots=True)
class LocalExecutor:
    """Runs tasks in worker processes, which it starts when they are first needed and keeps for later runs.

    Attributes:
        processes: the most workers at a time.
        on_progress: gets how many tasks of the running job are done; None: nobody does.
    """

    processes: int
    on_progress: OnProgress | None = None
    _idle: list[_Worker] = field(default_factory=list)
    _counter: TaskCounter = field(default_factory=lambda: TaskCounter.of("", 0, None, None))

    def run(
        self, work: Callable[[Task], Result], tasks: Sequence[Task], sizes: Sequence[int] | None = None
    ) -> list[Result]:
        """As :meth:`spark_jobs.engine.executor.Executor.run`.

        Raises:
            WorkerDied: a task ended its worker twice; all other tasks ran to their end.
            TaskFailed: a task ended with an exception.
            OSError: the disk failed to write the files of a task.
        """
        results: dict[int, Any] = {}
        self._counter = TaskCounter.of(bound(work)[0].__name__, len(tasks), sizes, self.on_progress)
        self._counter.add()
        order = range(len(tasks)) if sizes is None else sorted(range(len(tasks)), key=lambda at: -sizes[at])
        with FileSyncs() as syncs:
            queue = [_Queued(work, tasks[at], at, None if sizes is None else sizes[at]) for at in order]
            died = self._run(queue, self.processes, results, syncs)
            # Of unknown size, so each comes alone.
            again = [_Queued(work, second_try(tasks[at]), at) for at in sorted(died)]
            died = self._run(again, 1, results, syncs)
        if died:
            raise WorkerDied(
                " ".join(f"The worker of {_named(tasks[at])} {died[at]}." for at in sorted(died))
                + " Nothing of this job was committed; what the other tasks wrote is removed as orphans later. Where"
                " memory is short, run with fewer processes (LOGLAKE_PROCESSES) or on Spark (--engine spark).",
                died,
                results,
            )
        return [results[at] for at in range(len(tasks))]

    def start(self) -> None:
        """Start the workers before they are needed; returns at once."""
        while len(self._idle) < self.processes:
            self._idle.append(_Worker.start())

    def stop(self) -> None:
        """End all workers."""
        while self._idle:
            self._idle.pop().stop()

    def _run(
        self, queue: Sequence[_Queued], processes: int, results: dict[int, Any], syncs: FileSyncs
    ) -> dict[int, str]:
        """Run tasks and put what they return into ``results``, by position.

        Returns:
            How the worker died, by the position of its task.
        """
        waiting = deque(queue)
        busy: dict[Connection, tuple[_Worker, Sequence[_Queued]]] = {}
        died: dict[int, str] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < processes:
                    worker = self._idle.pop() if self._idle else _Worker.start()
                    sent = _next_group(waiting, processes)
                    busy[worker.pipe] = (worker, sent)
                    # Where it died before it could read, reading from it reports that.
                    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                        worker.pipe.send_bytes(pickle.dumps([(each.work, each.task) for each in sent]))
                for pipe in wait(list(busy)):
                    worker, sent = busy.pop(pipe)  # type: ignore[call-overload]
                    try:
                        answers = io.BytesIO(worker.pipe.recv_bytes())
                    except (EOFError, ConnectionResetError):
                        end = _end_of(worker.process.wait())
                        died |= {each.at: end for each in sent}
                        worker.close()
                        continue
                    self._keep(worker)
                    for each in sent:
                        self._take(each, pickle.load(answers), results, syncs)
        finally:
            for worker, _ in busy.values():
                worker.stop()
        return died

    def _take(self, done: _Queued, answer: tuple[bool, Any, Any], results: dict[int, Any], syncs: FileSyncs) -> None:
        is_done, result, more = answer
        if not is_done:
            raise TaskFailed(f"The task for {_named(done.task)} failed: {result}") from _Remote(more)
        syncs.add(more)
        results[done.at] = result
        self._counter.add(done.at)

    def _keep(self, worker: _Worker) -> None:
        if worker.resident_bytes() > WORKER_BYTES:
            worker.stop()
        else:
            self._idle.append(worker)


class _Remote(Exception):
    """The traceback of a worker, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def _end_of(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    by = signal.Signals(-code).name if -code in signal.Signals._value2member_map_ else f"signal {-code}"
    cause = ": the system ends processes so when memory runs out" if -code == signal.SIGKILL else ""
    return f"was ended by {by}{cause}"


def _named(task: object) -> str:
    """What identifies a task for a person."""
    return " ".join(filter(None, reads(task)[:2]))


def processes_here() -> int:
    """Workers that this machine runs at a time: LOGLAKE_PROCESSES, else its cores."""
    given = os.environ.get("LOGLAKE_PROCESSES", "")
    return int(given) if given.isdecimal() and int(given) > 0 else processors.available()


_executor: LocalExecutor | None = None


def get_local_executor() -> LocalExecutor:
    """The one of this process; its workers end with the process."""
    global _executor
    if _executor is None:
        _executor = LocalExecutor(processes_here())
        atexit.register(_executor.stop)
    return _executor
