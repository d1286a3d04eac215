"""What the tests' tasks do in their workers, for good and for ill."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from spark_jobs.engine.executor import synced_late
from spark_jobs.lake.store import storage
from spark_jobs.reads import Reads


@dataclass(frozen=True, slots=True)
class NumberedTask:
    """A task of one log: what it does is in its ``behaviour``."""

    topic: str
    partition: int
    behaviour: str
    folder: str

    @property
    def reads(self) -> Reads:
        """See :class:`spark_jobs.reads.ReadingTask`."""
        return Reads(f"{self.topic}-{self.partition}")


@dataclass(frozen=True, slots=True)
class ChangingTask(NumberedTask):
    """A task that is done in another way after its worker died."""

    def second_try(self) -> ChangingTask:
        """See :func:`spark_jobs.engine.executor.second_try`."""
        return replace(self, behaviour="return")


def work(task: NumberedTask) -> int:
    """Leave a file that counts the attempts, then do as the task says."""
    mark = Path(task.folder, str(task.partition))
    attempt = len(mark.read_bytes()) + 1 if mark.exists() else 1
    mark.write_bytes(bytes(attempt))
    match task.behaviour:
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "die once" if attempt == 1:
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(7)
        case "raise":
            raise OSError(28, "No space left on device")
        case "wait":
            time.sleep(600)
        case "print":
            print("to stdout")
            sys.stdout.flush()
        case "grow":
            global kept
            kept = bytearray(os.urandom(1 << 20) * 64)
        case "pid":
            return os.getpid()
    return task.partition


kept = bytearray()


@synced_late
def write(task: NumberedTask) -> str:
    """Place a file of the lake; return its path."""
    path = os.path.join(task.folder, "written", f"{task.partition}.data")
    with storage.writing(path) as local:
        Path(local).write_text(task.behaviour)
    return path


def bound(name: str, task: NumberedTask) -> str:
    """What was bound to the function, as jobs bind the lake."""
    return f"{name} {task.partition}"
