"""One huge log cleaned by many tasks: on one core and on two, with the same files.

What counts is the work of the job on a lake that was made before, in a session that has done the same once.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench.corpora import MIB, home
from tests.bench.results import Line, compared
from tests.bench.rounds import Contender, take_turns
from tests.bench.totals import Differ

HUGE = "compact-huge"
MUST = 1.6
SEGMENT_BYTES = 32 * MIB
_AS_OF_MS = 1_800_000_000_000


def lines(mib: int, rounds: int) -> Iterator[Line]:
    """The spread way on one core against two."""
    with tempfile.TemporaryDirectory(dir=home()) as folder:
        scratch = Path(folder)
        records = _prepare(scratch, mib)
        sessions = {cores: _Session(scratch, cores) for cores in (1, 2)}
        try:
            files = {cores: session.files() for cores, session in sessions.items()}
            if files[1] != files[2]:
                raise Differ(f"{HUGE}: one core and two leave other files")
            contenders = [
                Contender(f"{cores} core{'s' * (cores > 1)}", session.seconds) for cores, session in sessions.items()
            ]
            outcome = take_turns(contenders, rounds=rounds, warm_ups=0)
        finally:
            for session in sessions.values():
                session.close()
        yield compared(HUGE, outcome, "2 cores", "1 core", raw_bytes=mib * MIB, records=records, must=MUST, aim=1.8)


class _Session:
    """A process with a session of so many cores, which cleans copies of the lake."""

    def __init__(self, scratch: Path, cores: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.compaction", str(scratch), str(cores)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"LOGLAKE_SPARK_MASTER": f"local[{cores}]"},
        )

    def _ask(self) -> dict[str, object]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith('{"seconds"'):
                return dict(json.loads(line))
        raise Differ(f"{HUGE}: a session ended before it answered")

    def seconds(self) -> float:
        return float(str(self._ask()["seconds"]))

    def files(self) -> object:
        """Digests of what it leaves."""
        return self._ask()["files"]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)


def _prepare(scratch: Path, mib: int) -> int:
    """A source of one log and the lake that took it; how many records it has."""
    from spark_jobs import launch
    from spark_jobs.contracts import IngestConfig, PublishConfig, ValidateConfig
    from spark_jobs.session import stop_session
    from tests import handmade
    from tests.broker_directory import LogDirectory

    chance = random.Random(7)
    source = LogDirectory(scratch / "source")
    log = source.partition("huge-0")
    size = SEGMENT_BYTES
    keys = mib * 2000
    for _ in range(mib * MIB // 16_000):
        if size >= SEGMENT_BYTES:
            log.roll()
            size = 0
        rows = [(b"key-%012d" % chance.randrange(keys), chance.randbytes(70)) for _ in range(160)]
        data = handmade.simple_batch(log.next_offset, rows, base_timestamp=_AS_OF_MS - 10**9, leader_epoch=0)
        log.write(data)
        log.next_offset += len(rows)
        size += len(data)
    log.roll()
    log.append(1)
    source.high_watermarks(huge_0=log.next_offset)
    lake = str(scratch / "lake")
    launch.run("ingest", IngestConfig(lake, (str(source.path),), "take", _AS_OF_MS))
    launch.run("validate", ValidateConfig(lake, "take", _AS_OF_MS))
    launch.run("publish", PublishConfig(lake, "take", _AS_OF_MS))
    stop_session()
    (scratch / "policies.yaml").write_text(
        f"topics: {{huge: {{cleanup.policy: compact, segment.bytes: {SEGMENT_BYTES}, compaction.spread.bytes: 0}}}}"
    )
    return log.next_offset


def _serve(scratch: Path, cores: str) -> None:
    """Clean a copy of the lake for each line of input."""
    import hashlib
    import time

    from spark_jobs import launch
    from spark_jobs.contracts import CompactionConfig
    from spark_jobs.session import stop_session

    for _ in sys.stdin:
        lake = Path(shutil.copytree(scratch / "lake", scratch / f"cleaned-{cores}"))
        config = CompactionConfig(str(lake), "clean", _AS_OF_MS, str(scratch / "policies.yaml"), apply=True)
        begun = time.perf_counter()
        launch.run("compaction", config)
        seconds = time.perf_counter() - begun
        paths = sorted(path for path in (lake / "archive").rglob("*") if path.is_file())
        files = {str(path.relative_to(lake)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
        shutil.rmtree(lake)
        sys.stdout.write(json.dumps({"seconds": seconds, "files": files}) + "\n")
        sys.stdout.flush()
    stop_session()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), sys.argv[2])
