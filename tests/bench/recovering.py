"""Recovery of segments and their indexes, against Kafka's own `LogSegment.recover`: warm, same log, same processor.

First it is made sure that both give the same indexes. Copying and opening the segments are not timed on their side; on
ours the segments are mapped before the clock runs.
"""

from __future__ import annotations

import mmap
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from logcore.columns.recovery import recover_compiled
from logcore.logs.recovery.segment_recovery import RecoveredSegment
from tests.bench.dirty_logs import DirtyLog, dirty_log
from tests.bench.quiet_place import in_memory, one_processor
from tests.bench.results import Line, compared
from tests.bench.rounds import Contender, clocked, take_turns
from tests.bench.totals import Differ
from tests.kafka.storage_oracle import StorageOracle

VERSION = "4.4.0"
NOW = 1_800_000_000_000
CODECS = ("none", "lz4")
NAME = "recover-{}"
MUST, AIM = 2, 5
_WARM_UPS = 3


def lines(codec: str, mib: int, rounds: int) -> Iterator[Line]:
    """Check that both make the same indexes, then let them take turns.

    :raises Differ: they do not. :raises distribution.Unavailable: Kafka cannot be run here.
    """
    log = dirty_log(codec, mib)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(in_memory()))
        stack.enter_context(one_processor())
        kafka = stack.enter_context(StorageOracle(VERSION, heap="2g", seconds_for_an_answer=3600))
        segments = mapped(log)
        source = scratch / "log" / log.path.name
        shutil.copytree(log.path, source)
        _compare(segments, kafka, source, scratch / "theirs" / log.path.name)

        def theirs() -> float:
            answer = kafka.ask("bench", what="recover", directory=source, rounds=1, now=NOW, config={})
            return float(answer["rounds_ns"][0]) / 1e9

        def ours() -> None:
            recovered(segments)

        contenders = [Contender("ours", clocked(ours)), Contender("LogSegment.recover", theirs)]
        outcome = take_turns(contenders, rounds=rounds, warm_ups=_WARM_UPS)
    stored = sum(len(content) for content in segments.values())
    yield compared(
        NAME.format(codec),
        outcome,
        "ours",
        "LogSegment.recover",
        raw_bytes=stored,
        records=log.records,
        must=MUST,
        aim=AIM,
    )


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


def mapped(log: DirtyLog) -> dict[int, mmap.mmap]:
    """Segments with something in them, by base offset."""
    found = {}
    for path in sorted(log.path.glob("*.log")):
        if path.stat().st_size:
            with path.open("rb") as stream:
                found[int(path.stem)] = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    return found
