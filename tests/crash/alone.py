"""Turns of jobs under real Spark, in a process of their own: ``python -m tests.crash.alone SCRIPT``.

The script is a JSON file: a list of steps, done with one session. A step is a turn and an order for the Python workers
(None: nothing happens to them). One line of JSON per step says how it ended.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.conftest import REPOSITORY
from tests.crash.forks import Ended, Turn, run
from tests.crash.side_effects import Order, wait_for

PLANTED = Path(__file__).with_name("planted")


@dataclass(frozen=True, slots=True)
class Step:
    """A turn, and what happens to Spark's workers meanwhile; what happens to the driver is part of the turn."""

    turn: Turn
    workers: Order | None = None
    after: str | None = None
    """A file that another process makes, and a second, are waited for before."""


def environment(
    scratch: Path, master: str, conf: Mapping[str, str] | None = None, variables: Mapping[str, str] | None = None
) -> dict[str, str]:
    """What a process that starts Spark is given, so that its workers can be given orders.

    Args:
        variables: Environment variables for its jobs, which the tests' own settings would replace.
    """
    planted = {"PYTHONPATH": os.pathsep.join((str(PLANTED), str(REPOSITORY)))}
    return (
        os.environ
        | planted
        | {
            "LOGLAKE_JOB_ENGINE": "spark",
            "LOGLAKE_SPARK_MASTER": master,
            "LOGLAKE_SPARK_CONF": json.dumps(dict(conf or {})),
            "LOGLAKE_TEST_CONTROL": str(scratch / "control"),
            "LOGLAKE_TEST_VARIABLES": json.dumps(dict(variables or {})),
        }
    )


def start(
    scratch: Path,
    steps: Sequence[Step],
    master: str,
    conf: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
) -> subprocess.Popen[str]:
    """A process that does these steps. The arguments are those of :func:`environment`."""
    scratch = Path(tempfile.mkdtemp(dir=scratch))
    script = scratch / "script.json"
    script.write_text(json.dumps([asdict(step) for step in steps]))
    command = [sys.executable, "-m", "tests.crash.alone", str(script)]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=REPOSITORY, env=environment(scratch, master, conf, variables), stdout=pipe, stderr=pipe, text=True
    )


def finish(process: subprocess.Popen[str], seconds: float = 600) -> list[Ended]:
    """What became of its steps."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()  # its JVM ends with it
        raise
    assert process.returncode == 0, err[-5000:]
    return [Ended(**json.loads(line)) for line in out.splitlines() if line.startswith('{"code"')]


def main(script: str) -> None:
    """Do the steps of a script."""
    control = Path(os.environ["LOGLAKE_TEST_CONTROL"])
    os.environ.update(json.loads(os.environ["LOGLAKE_TEST_VARIABLES"]))
    for step in json.loads(Path(script).read_text()):
        turn = Turn.from_values(step["turn"])
        whole = control.with_suffix(".new")
        whole.write_text(json.dumps(step["workers"]) if step["workers"] else "")
        whole.replace(control)
        if step["after"]:
            wait_for(Path(step["after"]), 300)
            time.sleep(1)
        said: dict[str, Any] = {}
        code = 0
        try:
            run(turn, said)
        except Exception as error:  # noqa: BLE001
            said["error"] = f"{type(error).__name__}: {error}"
            code = 1
        print(json.dumps(asdict(Ended(code, said.get("error", ""), said.get("reports", []), said.get("tables", {})))))
        sys.stdout.flush()
    from spark_jobs.engine.session import stop_session

    stop_session()


if __name__ == "__main__":
    main(sys.argv[1])
