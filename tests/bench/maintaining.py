"""The rows about maintenance as a user runs it: `loglake run SRC --lake LAKE --maintain --apply` on a log to clean.

    ours      the whole command from its start to the prompt: an intake with nothing new, retention, cleaning with its
              proof, indexes, tables, Dagster; a lake that took the log before, copied again for each round
    kafka     `Cleaner.doClean` on the same segments in a warm JVM, which may use every core; copying and opening the
              log are not timed

First both must leave the same files: logs and indexes.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.bench.cleaning import NOW, RETENTION, VERSION, request
from tests.bench.corpora import MIB, home
from tests.bench.decoding import Asked
from tests.bench.dirty_logs import DirtyLog, dirty_log
from tests.bench.processes import environment
from tests.bench.results import Line, Unit, compared, number, seconds
from tests.bench.rounds import MOST_SPREAD, Contender, take_turns
from tests.bench.totals import Differ
from tests.bench.watched import Watched, watched
from tests.broker_directory import LogDirectory
from tests.kafka.storage_oracle import StorageOracle

OURS, KAFKA = "`loglake run --maintain --apply`", "Cleaner.doClean"
_TOPIC, _PARTITION = "huge", "huge-0"
_LAST_RECORDS = 100
"""In the active segment of a dirty log."""
_AS_OF = datetime.fromtimestamp(NOW / 1000, UTC).isoformat()
_LIMIT_MIB = 700
_SUFFIXES = (".log", ".index", ".timeindex")


@dataclass(frozen=True, slots=True)
class MaintenanceCase:
    """A codec, and how many times as fast as Kafka's cleaner the command must be."""

    codec: str
    asked: Asked

    @property
    def name(self) -> str:
        return f"maintain-{self.codec}"


CASES = (MaintenanceCase("none", Asked(1.2, 3)), MaintenanceCase("lz4", Asked(1.2, 3)))


def lines(case: MaintenanceCase, mib: int, rounds: int) -> Iterator[Line]:
    """The command against Kafka's cleaner, its memory, and the same command without maintenance.

    :raises Differ: they leave other files. :raises distribution.Unavailable: Kafka cannot be run here.
    """
    log = dirty_log(case.codec, mib)
    taken: list[Watched] = []
    with ExitStack() as stack:
        place = _Place(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="maintain-", dir=home()))))
        place.prepare(log)
        kafka = stack.enter_context(StorageOracle(VERSION, heap="2g", seconds_for_an_answer=3600))
        fields = request(log)

        def ours() -> float:
            place.renew()
            taken.append(place.run("--maintain", "--apply"))
            return taken[-1].seconds

        def theirs() -> float:
            answer = kafka.ask("bench", what="clean", directory=place.copy_for_kafka(log), rounds=1, **fields)
            return float(answer["rounds_ns"][0]) / 1e9

        ours()
        cleaned = place.copy_for_kafka(log)
        kafka.ask("clean", directory=cleaned, **fields)
        place.compare(case.name, cleaned)
        theirs()  # the JVM is warm now: it has cleaned the log twice
        taken.clear()
        outcome = take_turns([Contender(OURS, ours), Contender(KAFKA, theirs)], rounds=rounds, warm_ups=0)
        place.renew()
        noop = [place.run().seconds for _ in range(rounds)]
    yield compared(
        case.name,
        outcome,
        OURS,
        KAFKA,
        raw_bytes=log.raw_bytes,
        records=log.records,
        must=case.asked.must,
        aim=case.asked.aim,
    )
    peaks = [each.together / MIB for each in taken]
    yield Line(
        f"{case.name}: peak of RssAnon of all processes of {OURS}",
        f"{_LIMIT_MIB} MiB",
        Unit.MIB,
        max(peaks),
        min(peaks),
        max(peaks),
        f"driver {number(max(each.driver for each in taken) / MIB)} MiB, largest worker "
        f"{number(max(each.worker for each in taken) / MIB)} MiB",
        f"{log.size / 1e6:,.0f} MB of segments",
        _LIMIT_MIB,
        None,
    )
    yield Line(
        f"{case.name}: the same lake without --maintain, nothing new",
        "",
        Unit.SECONDS,
        sorted(noop)[len(noop) // 2],
        min(noop),
        max(noop),
        f"with it {seconds(outcome.times[OURS].median)}",
        "",
        noisy=max(noop) / min(noop) > MOST_SPREAD,
    )


class _Place:
    """A source, the lake that took it, and a copy of the lake to clean."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._source, self._taken, self._lake = scratch / "source", scratch / "taken", scratch / "lake"
        self._policies = scratch / "policies.yaml"

    def prepare(self, log: DirtyLog) -> None:
        """Let the lake take the log."""
        source = LogDirectory(self._source)
        partition = source.partition(_PARTITION)
        for path in log.path.glob("*.log"):
            shutil.copy(path, partition.path)
        source.high_watermarks(**{_PARTITION.replace("-", "_"): log.records + _LAST_RECORDS})
        policy = f"cleanup.policy: compact, delete.retention.ms: {RETENTION}"
        self._policies.write_text(f"topics: {{{_TOPIC}: {{{policy}}}}}")
        self.run()
        self.run()  # the next intake has nothing to evaluate either
        self._lake.rename(self._taken)

    def renew(self) -> None:
        """Make the copy again."""
        shutil.rmtree(self._lake, ignore_errors=True)
        shutil.copytree(self._taken, self._lake, copy_function=_linked)
        os.sync()

    def run(self, *options: str) -> Watched:
        """Run the command on the copy."""
        command = [str(Path(sys.executable).with_name("loglake")), "run", str(self._source), "--lake", str(self._lake)]
        command += ["--policies", str(self._policies), "--as-of", _AS_OF, "--engine", "local", *options]
        return watched(command, self._scratch, environment() | {"DAGSTER_HOME": str(self._scratch / "dagster")})

    def copy_for_kafka(self, log: DirtyLog) -> Path:
        """A partition directory that Kafka may change."""
        target = self._scratch / "kafka" / log.path.name
        shutil.rmtree(target.parent, ignore_errors=True)
        shutil.copytree(log.path, target)
        os.sync()
        return target

    def compare(self, case: str, cleaned: Path) -> None:
        """
        :raises Differ: a file of the archive is not what Kafka left.
        """
        from spark_jobs.lake.segments import archive
        from spark_jobs.lake.segments.log_directory import side_file

        live = archive.read_segments(str(self._lake))[:-1]
        ours = {
            f"{each.base_offset:020d}{suffix}": self._lake / side_file(each.path, suffix)
            for each in live
            for suffix in _SUFFIXES
        }
        bases = sorted(int(path.stem) for path in cleaned.glob("*.log"))[:-1]
        if bases != [each.base_offset for each in live]:
            raise Differ(f"{case}: Kafka left {len(bases)} segments, and we {len(live)}")
        for base in bases:
            for suffix in _SUFFIXES:
                name = f"{base:020d}{suffix}"
                if not filecmp.cmp(ours[name], cleaned / name, shallow=False):
                    raise Differ(f"{case}: our {name} is not the one that Kafka left")


def _linked(source: str, target: str) -> None:
    """Segments and rows are never written again, so a link will do; what else there is, is copied."""
    if source.endswith((".log", ".parquet")):
        os.link(source, target)
    else:
        shutil.copy2(source, target)
