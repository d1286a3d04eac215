"""Named points at which `loglake run` is killed with SIGKILL.

The point is planted from outside, around the function that has the side effect; the code under test knows nothing of
it. SIGKILL gives no chance to clean up: no ``finally``, no ``atexit``, the lease is left to the operating system.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _killed_before(module: Any, name: str) -> None:
    def die(*_: Any, **__: Any) -> None:
        _kill()

    getattr(module, name)  # a point that is gone by that name would be passed by alive
    setattr(module, name, die)


def _killed_after(module: Any, name: str, when: Callable[..., bool]) -> None:
    done = getattr(module, name)

    def do_and_die(*args: Any, **kwargs: Any) -> Any:
        result = done(*args, **kwargs)
        if when(*args, **kwargs):
            _kill()
        return result

    setattr(module, name, do_and_die)


def plant(point: str) -> None:
    """Arrange that this process dies at `point`."""
    from spark_jobs.expectations import expectations_job as expectations
    from spark_jobs.lake.delta import commits
    from spark_jobs.lake.segments import archive
    from spark_jobs.publish import publish_job as publish
    from spark_jobs.validate import validate_job as validate

    points: dict[str, Callable[[], None]] = {
        "segment copied before its row is committed": lambda: _killed_before(archive, "commit_segments"),
        "segments committed before the row of the log": lambda: _killed_before(archive, "commit_logs"),
        "between batches and validations": lambda: _killed_before(validate, "_commit_transactions"),
        "ledger committed before validations": lambda: _killed_before(validate, "_commit_validations"),
        "Parquet written before the publish commit": lambda: _killed_before(publish, "_commit"),
        "publish commit landed before its answer": lambda: _killed_after(
            commits, "add_files", lambda lake, name, *_, **__: name == "records"
        ),
        "inside the next job": lambda: _killed_before(expectations, "apply"),
    }
    points[point]()
