"""Recovery of segments and their indexes, against Kafka's own `LogSegment.recover`: warm, same log, same processor.

First it is made sure that both give the same indexes. Copying and opening the segments are not timed on their side; on
ours the segments are mapped before the clock runs. Both read the same files: in memory, or on the disk.
"""

from __future__ import annotations

import mmap
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from logcore.columns.recovery import recover_compiled
from logcore.logs.recovery.segment_recovery import RecoveredSegment
from tests.bench.corpora import home
from tests.bench.dirty_logs import dirty_log
from tests.bench.quiet_place import in_memory, one_processor
from tests.bench.results import Line, compared
from tests.bench.rounds import Contender, clocked, take_turns
from tests.bench.totals import Differ
from tests.kafka.distribution import Unavailable
from tests.kafka.storage_oracle import StorageOracle

VERSION = "4.4.0"
NOW = 1_800_000_000_000
MUST, AIM = 2, 5
_WARM_UPS = 3


@dataclass(frozen=True, slots=True)
class RecoveryCase:
    """A log, and where its files are. Kafka writes the indexes into these files; the file system decides how fast."""

    codec: str
    in_memory: bool

    @property
    def name(self) -> str:
        """The case."""
        return f"recover-{self.codec}-{'memory' if self.in_memory else 'disk'}"

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """An empty folder on that file system.

        :raises Unavailable: This machine has no file system in memory.
        """
        if not self.in_memory:
            with TemporaryDirectory(prefix="recover-", dir=home()) as name:
                yield Path(name)
            return
        with in_memory() as name:
            if _file_system(Path(name)) != "tmpfs":
                raise Unavailable("there is no file system in memory")
            yield Path(name)


CASES = tuple(RecoveryCase(codec, in_memory) for codec in ("none", "lz4") for in_memory in (True, False))


def _file_system(path: Path) -> str:
    """The kind of file system that a path is on, as the system names it."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    holding = [each for each in mounts if path.resolve().is_relative_to(each[1])]
    return max(holding, key=lambda each: len(each[1]))[2]


def lines(case: RecoveryCase, mib: int, rounds: int) -> Iterator[Line]:
    """Check that both make the same indexes, then let them take turns.

    :raises Differ: they do not. :raises distribution.Unavailable: Kafka cannot be run here.
    """
    log = dirty_log(case.codec, mib)
    with ExitStack() as stack:
        scratch = stack.enter_context(case.folder())
        kind = _file_system(scratch)
        stack.enter_context(one_processor())
        kafka = stack.enter_context(StorageOracle(VERSION, heap="2g", seconds_for_an_answer=3600))
        source = scratch / "log" / log.path.name
        shutil.copytree(log.path, source)
        segments = mapped(source)
        _compare(segments, kafka, source, scratch / "theirs" / log.path.name)

        def theirs() -> float:
            answer = kafka.ask("bench", what="recover", directory=source, rounds=1, now=NOW, config={})
            return float(answer["rounds_ns"][0]) / 1e9

        def ours() -> None:
            recovered(segments)

        contenders = [Contender("ours", clocked(ours)), Contender("LogSegment.recover", theirs)]
        outcome = take_turns(contenders, rounds=rounds, warm_ups=_WARM_UPS)
    stored = sum(len(content) for content in segments.values())
    line = compared(
        case.name,
        outcome,
        "ours",
        "LogSegment.recover",
        raw_bytes=stored,
        records=log.records,
        must=MUST,
        aim=AIM,
    )
    yield replace(line, theirs=f"{line.theirs}, files on {kind}")


def recovered(segments: dict[int, mmap.mmap]) -> dict[int, RecoveredSegment]:
    return {base_offset: recover_compiled(content, base_offset) for base_offset, content in segments.items()}


def _compare(segments: dict[int, mmap.mmap], kafka: StorageOracle, source: Path, copy: Path) -> None:
    shutil.copytree(source, copy)
    kafka.ask("recover", directory=copy, now=NOW, config={}, recovery_point=0)
    for base_offset, segment in recovered(segments).items():
        for suffix, ours in (("index", segment.offset_index), ("timeindex", segment.time_index)):
            name = f"{base_offset:020d}.{suffix}"
            if (copy / name).read_bytes() != ours:
                raise Differ(f"{source}: our {name} is not the one that Kafka made")
    shutil.rmtree(copy)


def mapped(directory: Path) -> dict[int, mmap.mmap]:
    """Segments of a directory with something in them, by base offset."""
    found = {}
    for path in sorted(directory.glob("*.log")):
        if path.stat().st_size:
            with path.open("rb") as stream:
                found[int(path.stem)] = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    return found
