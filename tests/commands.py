"""The command line in processes of their own without their start: a server that has imported all, and forks.

Starting an interpreter with Dagster, Delta and Great Expectations takes longer than a command on a small lake. The
server (``python -m tests.commands``) imports and waits; each line of JSON on its input is one command line, run in a
fork with an environment of its own, and each line on its output is the exit code.

Jobs run their tasks in the fork, unless a test's claim is about Spark: starting it takes longer than all else of a run.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.crash.side_effects import Order
from tests.daemons import WAIT_SECONDS
from tests.in_process import EVERY_JOB_ON_SPARK, without_spark
from tests.warm_server import import_too, write_imported

MODULES = (
    *("pipelines.command.run_lake", "pipelines.definitions", "great_expectations", "pyspark.sql"),
    *(f"spark_jobs.lake_commands.{name}" for name in ("verify", "withdraw", "repair", "lineage", "config")),
    *("spark_jobs.launch", "spark_jobs.engine.session", "deltalake", "pyarrow.dataset", "pyarrow.parquet"),
)
SECONDS = 300


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended: its exit code (negative: the signal), what it printed."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Both outputs, for the message of an assertion."""
        return f"exit code {self.code}\n{self.out}\n{self.err}"


class Commands:
    """The server, as its user sees it. One command at a time; several servers run several.

    Args:
        on_spark: whether jobs run their tasks on Spark.
    """

    def __init__(self, scratch: Path, *, on_spark: bool = EVERY_JOB_ON_SPARK) -> None:
        self._scratch = scratch
        self._on_spark = on_spark
        scratch.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.commands"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._lock = threading.Lock()

    def loglake(
        self,
        *arguments: str | Path,
        home: Path,
        order: Order | None = None,
        point: str | None = None,
        unset: tuple[str, ...] = (),
        **more: str,
    ) -> Done:
        """Type a command in a shell that names a home and not Dagster's.

        Args:
            order: what happens at a side effect; see :mod:`tests.crash.side_effects`.
            point: where the process is killed; see :mod:`tests.crash.killed_run`.
            unset: variables that the shell does not have; more: variables that it has.
        """
        value = {
            "arguments": [str(each) for each in arguments],
            "environment": {"LOGLAKE_HOME": str(home), **more},
            "unset": ["DAGSTER_HOME", *unset],
            "order": None if order is None else asdict(order),
            "point": point,
            "on_spark": self._on_spark,
        }
        with self._lock, tempfile.TemporaryDirectory(dir=self._scratch) as folder:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(value | {"folder": folder}) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
            assert answer, "the server of commands is gone"
            out, err = (Path(folder, name).read_text(errors="replace") for name in ("out", "err"))
        return Done(int(answer), out, err)

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=WAIT_SECONDS)


def serve() -> None:
    """Fork for each line of input until it ends."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from logcore.columns.engines import decode_segment
    from logcore.columns.wanted import Place
    from tests import handmade

    for name in MODULES:
        with contextlib.suppress(ModuleNotFoundError):  # the command says what is missing
            importlib.import_module(name)
    from spark_jobs.contracts import CONFIGS

    for name in CONFIGS:
        importlib.import_module(f"spark_jobs.{name}.{name}_job")
    # Kernels are loaded once, here. Nothing of Arrow or Delta may run before a fork: they have threads.
    batch = handmade.simple_batch(0, [(b"k", b"v")])
    list(decode_segment(batch, place=Place("t", 0, "t", "s"), base_offset=0, sealed=True))
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever a command prints is no answer
    for line in sys.stdin:
        value = json.loads(line)
        child = os.fork()
        if child == 0:
            _run_forked(value)
        _, status = os.waitpid(child, 0)
        import_too(Path(value["folder"], "imported"))
        os.write(answers, f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _run_forked(value: dict[str, Any]) -> None:
    code, before = 99, set(sys.modules)
    try:
        os.setpgid(0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(Path(value["folder"], name), os.O_WRONLY | os.O_CREAT), number)
        for name in value["unset"]:
            os.environ.pop(name, None)
        os.environ.update(value["environment"])
        Path(value["environment"]["LOGLAKE_HOME"]).mkdir(parents=True, exist_ok=True)
        from logcore.cli.main import main
        from spark_jobs.engine.session import stop_session

        if value["order"] is not None:
            from tests.crash.side_effects import SideEffects

            SideEffects(Order.from_json(json.dumps(value["order"]))).install()
        if value["point"] is not None:
            from tests.crash.killed_run import plant

            plant(value["point"])
        if value["on_spark"]:
            os.environ["LOGLAKE_JOB_ENGINE"] = "spark"
        with contextlib.nullcontext() if value["on_spark"] else without_spark():
            code = main(value["arguments"])
        stop_session()
        write_imported(Path(value["folder"], "imported"), before)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    serve()
