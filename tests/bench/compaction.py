"""One huge log cleaned by many tasks: on one processor and on two, with the same files.

What counts is the work of the job on a lake that was made before, in a session that has done the same once. A session
and all that it starts keep to as many processors as it has cores: its JVM and what runs compiled would take the other
one too. The lake lies in memory, so that no disk is what both wait for; sessions take turns, and one that waits does
nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from spark_jobs.policies.policies_file import read_policies
from tests.bench.corpora import MIB
from tests.bench.dirty_logs import SEGMENT_MIB, DirtyLog, dirty_log
from tests.bench.quiet_place import in_memory
from tests.bench.results import Line, compared
from tests.bench.rounds import Contender, take_turns
from tests.bench.totals import Differ

HUGE = "compact-huge"
MUST = 1.6
_LAST_RECORDS = 100
"""In the active segment of a dirty log."""
_AS_OF_MS = 1_800_000_000_000


def lines(mib: int, rounds: int) -> Iterator[Line]:
    """The spread way on one processor against two."""
    log = dirty_log("none", mib)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(in_memory()))
        _prepare(scratch, log)
        sessions = {cores: _Session(scratch, cores) for cores in (1, 2)}
        for session in sessions.values():
            stack.callback(session.close)
        # This is the warm-up too.
        files = {cores: session.ask("files") for cores, session in sessions.items()}
        if files[1] != files[2]:
            raise Differ(f"{HUGE}: one core and two leave other files")
        contenders = [
            Contender(f"{cores} core{'s' * (cores > 1)}", session.seconds) for cores, session in sessions.items()
        ]
        outcome = take_turns(contenders, rounds=rounds, warm_ups=0)
    made = {"raw_bytes": log.raw_bytes, "records": log.records}
    yield compared(HUGE, outcome, "2 cores", "1 core", must=MUST, aim=1.8, **made)


class _Session:
    """A process with a session of so many cores. For each request it cleans the lake from its first state."""

    def __init__(self, scratch: Path, cores: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.compaction", str(scratch), str(cores)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"LOGLAKE_SPARK_MASTER": f"local[{cores}]"},
        )

    def ask(self, what: str) -> object:
        """What it says of one cleaning: its `seconds`, or the digests of the `files` that it leaves."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith('{"answer"'):
                return json.loads(line)["answer"]
        raise Differ(f"{HUGE}: a session ended before it answered")

    def seconds(self) -> float:
        return float(str(self.ask("seconds")))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)


def _prepare(scratch: Path, log: DirtyLog) -> None:
    """The lake that took the log."""
    from spark_jobs import launch
    from spark_jobs.contracts import IngestConfig, PublishConfig, ValidateConfig
    from spark_jobs.engine.session import stop_session
    from tests.broker_directory import LogDirectory

    source = LogDirectory(scratch / "source")
    partition = source.partition("huge-0")
    for path in log.path.glob("*.log"):
        shutil.copy(path, partition.path)
    source.high_watermarks(huge_0=log.records + _LAST_RECORDS)
    lake = str(scratch / "lake")
    launch.run(IngestConfig(lake, (str(source.path),), "take", _AS_OF_MS))
    shutil.rmtree(source.path)
    launch.run(ValidateConfig(lake, "take", _AS_OF_MS))
    launch.run(PublishConfig(lake, "take", _AS_OF_MS))
    stop_session()
    policy = f"cleanup.policy: compact, segment.bytes: {SEGMENT_MIB * MIB}, compaction.spread.bytes: 0"
    (scratch / "policies.yaml").write_text(f"topics: {{huge: {{{policy}}}}}")


def _serve(scratch: Path, cores: int) -> None:
    """Clean a lake of the same files for each line of input."""
    from spark_jobs import launch
    from spark_jobs.contracts import CompactionConfig
    from spark_jobs.engine.session import stop_session

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-cores:])
    for line in sys.stdin:
        lake = Path(shutil.copytree(scratch / "lake", scratch / f"cleaned-{cores}", copy_function=_shared))
        config = CompactionConfig(
            str(lake), "clean", _AS_OF_MS, read_policies(str(scratch / "policies.yaml")), apply=True
        )
        begun = time.perf_counter()
        report = launch.run(config)
        answer: object = time.perf_counter() - begun
        if not report.metrics["replaced_segments"] or not report.metrics["spread_logs"]:
            raise Differ(f"{HUGE}: nothing was cleaned")
        if line.strip() == "files":
            paths = sorted(path for path in (lake / "archive").rglob("*") if path.is_file())
            answer = {str(path.relative_to(lake)): _digest(path) for path in paths}
        shutil.rmtree(lake)
        sys.stdout.write(json.dumps({"answer": answer}) + "\n")
        sys.stdout.flush()
    stop_session()


def _shared(source: str, target: str) -> None:
    """Segments and rows are never written again, so a link will do; what else there is, is copied."""
    if source.endswith((".log", ".parquet")):
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), int(sys.argv[2]))
