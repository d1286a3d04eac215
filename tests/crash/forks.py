"""Jobs run in processes that may die: a process that has imported everything, and forks one for each run.

Starting an interpreter with Delta and Arrow takes longer than a job on a few records, and single crashes are many. The
server (``python -m tests.crash.forks``) imports and waits; each line of JSON on its input is a :class:`Turn`, run in a
fork, and each line on its output says how the fork ended. Spark is stood in for by a loop over the tasks in the same
process, so that effects of driver and workers have one order.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from spark_jobs.policies.policies_file import read_policies
from tests.crash.side_effects import Happening
from tests.daemons import WAIT_SECONDS
from tests.warm_server import import_too, write_imported

AS_OF_MS = 1_800_000_000_000
JOBS = ("ingest", "validate", "publish")


@dataclass(frozen=True, slots=True)
class Turn:
    """Jobs on a lake, one after another, and what happens to the process meanwhile."""

    lake: str
    source: str
    jobs: tuple[str, ...] = JOBS
    run_id: str = "run"
    happening: Happening | None = None
    journal: str | None = None
    """File that gets a line for each side effect in the lake."""
    look_first: bool = False
    """Check what is visible before anything runs."""
    policies: str | None = None
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    """More fields of a job's configuration, by job."""
    constants: dict[str, Any] = field(default_factory=dict)
    """Constants that are another in this turn, by ``module.NAME``."""
    shuffled: int | None = None
    """Seed of an order in which tasks are done; None: as they come."""
    root: str | None = None
    """Folder in which side effects count; None: the lake."""
    fused: bool = False
    """Hand results from job to job and sync files late, as `loglake run` does with worker processes."""
    round_tasks: int = 0
    """The steps of an intake in rounds of so many segments, in place of single jobs."""

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> Turn:
        """The reverse of `asdict`."""
        happening = values["happening"]
        jobs = tuple(values["jobs"])
        return cls(**values | {"jobs": jobs, "happening": happening and Happening(**happening)})


@dataclass(frozen=True, slots=True)
class Ended:
    """How a fork ended: `code` as of a subprocess (negative: the signal), what its jobs said, its tables."""

    code: int
    said: str
    """Standard error, or the error that ended it."""
    reports: list[dict[str, Any]]
    tables: dict[str, list[str]]
    """Rows of every table afterwards; empty if it did not get there."""


class Forks:
    """The server, as its user sees it."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.forks"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._lock = threading.Lock()

    def run(self, turn: Turn) -> Ended:
        """Run one turn to its end, good or bad."""
        with self._lock:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            with tempfile.TemporaryDirectory(dir=self._scratch) as folder:
                out = Path(folder, "out")
                self._process.stdin.write(json.dumps(asdict(turn) | {"out": str(out)}) + "\n")
                self._process.stdin.flush()
                answer = self._process.stdout.readline()
                assert answer, "the server of forks is gone"
                said = json.loads(out.read_text()) if out.exists() else {}
                errors = Path(f"{out}.stderr").read_text()
        code = int(answer)
        return Ended(code, said.get("error") or errors, said.get("reports", []), said.get("tables", {}))

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=WAIT_SECONDS)


def serve() -> None:
    """Fork for each line of input until it ends."""
    import spark_jobs.archived_rows.segment_pass
    import spark_jobs.engine.spark_executor
    import spark_jobs.ingest.ingest_job
    import spark_jobs.publish.publish_job
    import spark_jobs.validate.log_pass
    import spark_jobs.validate.validate_job  # noqa: F401
    from logcore.columns.engines import decode_segment
    from logcore.columns.wanted import Place
    from tests import handmade
    from tests.crash import visible  # noqa: F401

    # Kernels are loaded once, here. Nothing else may run before a fork: Arrow and Delta have threads.
    list(
        decode_segment(
            handmade.simple_batch(0, [(b"k", b"v")]), place=Place("t", 0, "t", "s"), base_offset=0, sealed=True
        )
    )
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever a job prints is no answer
    for line in sys.stdin:
        value = json.loads(line)
        child = os.fork()
        if child == 0:
            _run_forked(value)
        _, status = os.waitpid(child, 0)
        import_too(Path(value["out"] + ".imported"))
        os.write(answers, f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _run_forked(value: dict[str, Any]) -> None:
    before = set(sys.modules)
    out = value.pop("out")
    turn = Turn.from_values(value)
    descriptor = os.open(f"{out}.stderr", os.O_WRONLY | os.O_CREAT)
    os.dup2(descriptor, 2)
    os.dup2(descriptor, 1)
    said: dict[str, Any] = {}
    code = 0
    try:
        stand_in_for_spark(turn.shuffled, late=turn.fused)
        run(turn, said)
    except BaseException as error:  # noqa: BLE001
        said["error"] = f"{type(error).__name__}: {error}"
        code = 1
    Path(out).write_text(json.dumps(said))
    write_imported(Path(f"{out}.imported"), before)
    os._exit(code)


def run(turn: Turn, said: dict[str, Any]) -> None:
    """The jobs of a turn in this process, as a driver would run them."""
    from spark_jobs import launch
    from tests.crash import visible
    from tests.crash.side_effects import Order, SideEffects

    for name, constant in turn.constants.items():
        module, _, last = name.rpartition(".")
        getattr(importlib.import_module(module), last)
        setattr(importlib.import_module(module), last, constant)
    if turn.look_first:
        visible.check(Path(turn.lake))
    if turn.happening is not None or turn.journal is not None:
        SideEffects(Order(turn.root or turn.lake, turn.happening, turn.journal)).install()
    said["reports"] = []
    with launch.intake(turn.lake, "local") if turn.fused else nullcontext() as results:
        if turn.round_tasks:
            said["reports"] = _in_rounds(turn, results)
        for job in () if turn.round_tasks else turn.jobs:
            report = launch.run(configuration(turn, job), results=results)
            said["reports"].append({"job": job, "changed": len(report.changed), "metrics": dict(report.metrics)})
    if turn.round_tasks:
        ledger = {"offset_ledger": visible.joined_ledger(Path(turn.lake))}
        said["tables"] = visible.tables(Path(turn.lake)) | ledger
        return
    said["tables"] = visible.tables(Path(turn.lake))


def _in_rounds(turn: Turn, results: Any) -> list[dict[str, Any]]:
    from pipelines.command.running import DirectLauncher
    from pipelines.run.chains import INTAKE
    from pipelines.run.direct import run_steps
    from pipelines.run.run_request import RunRequest
    from pipelines.run.steps import Run

    request = RunRequest(sources=(turn.source,), max_tasks_per_round=turn.round_tasks)
    run = Run(
        turn.run_id,
        turn.lake,
        AS_OF_MS,
        request,
        request.policies_of(turn.lake),
        DirectLauncher(),
        results=results,
    )
    for error in run_steps(INTAKE[:3], run).errors.values():
        raise error
    return [{"job": each.job, "changed": len(each.changed), "metrics": dict(each.metrics)} for each in run.reports]


def configuration(turn: Turn, job: str) -> Any:
    """The configuration of a job."""
    from spark_jobs.contracts import IngestConfig, PublishConfig, ValidateConfig

    more = turn.options.get(job, {})
    if job == "ingest":
        return IngestConfig(
            turn.lake, (turn.source,), turn.run_id, AS_OF_MS, policies=read_policies(turn.policies), **more
        )
    if job == "validate":
        return ValidateConfig(turn.lake, turn.run_id, AS_OF_MS, policies=read_policies(turn.policies), **more)
    if job == "publish":
        return PublishConfig(turn.lake, turn.run_id, AS_OF_MS, policies=read_policies(turn.policies), **more)
    from spark_jobs.contracts import CONFIGS

    return CONFIGS[job].from_dict({"lake": turn.lake, "run_id": turn.run_id, "as_of_ms": AS_OF_MS, **more})


def stand_in_for_spark(shuffled: int | None = None, *, late: bool = False) -> None:
    """Tasks run here, one after another, in their order or one that comes of a seed; no JVM."""
    from spark_jobs import launch

    executor = _SyncingLate() if late else _InProcess(shuffled)
    launch.start_executor = lambda *_: executor


@dataclass(frozen=True, slots=True)
class _InProcess:
    shuffled: int | None

    def run(self, work: Callable[[Any], Any], tasks: Sequence[Any], sizes: Sequence[int] | None = None) -> list[Any]:
        from spark_jobs.engine.executor import perform

        order = list(range(len(tasks)))
        if self.shuffled is not None:
            random.Random(self.shuffled).shuffle(order)
        done = {at: pickle.loads(pickle.dumps(perform(work, pickle.loads(pickle.dumps(tasks[at]))))) for at in order}
        return [done[at] for at in range(len(tasks))]


class _SyncingLate:
    """As worker processes and their driver: files are synced when all tasks are done."""

    def run(self, work: Callable[[Any], Any], tasks: Sequence[Any], sizes: Sequence[int] | None = None) -> list[Any]:
        from spark_jobs.engine.executor import is_synced_late
        from spark_jobs.lake.store.disk_sync import late_syncs, sync_all

        if not is_synced_late(work):
            return _InProcess(None).run(work, tasks, sizes)
        with late_syncs() as unsynced:
            results = _InProcess(None).run(work, tasks, sizes)
        sync_all([*unsynced.files, *sorted(unsynced.directories)])
        return results


if __name__ == "__main__":
    serve()
