"""Cleaning by key, against Kafka's own cleaner.

A round of ours and a round of `Cleaner.doClean` in a warm JVM, on the same log and the same processor: the
map is made, every segment is read, what stays is written to files in memory, with both indexes. First it is made sure
that both leave the same files. Copying and opening the log are not timed on their side, planning is not on ours; ours
verifies every checksum, theirs none. Before a large log the JVM is made warm with a small one of the same kind, and
fewer rounds are enough: one takes it a third of a minute.
"""

from __future__ import annotations

import filecmp
import mmap
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logcore.columns.cleaning.cleaning import CompiledCleaner
from logcore.logs.compaction.cleaning_round import CleanedSegment, CleaningRound, SourceSegment
from logcore.logs.compaction.planned_round import group_segments
from logcore.logs.model.broker_line import BrokerLine
from logcore.records.snappy_encoder import use_library
from spark_jobs.engine.snappy_library import load_snappy_java
from tests.bench.corpora import MIB
from tests.bench.decoding import Asked
from tests.bench.dirty_logs import KEYS_A_RECORD, DirtyLog, dirty_log
from tests.bench.quiet_place import in_memory, one_processor
from tests.bench.results import Line, compared
from tests.bench.rounds import Contender, clocked, take_turns
from tests.bench.totals import Differ
from tests.kafka.storage_oracle import StorageOracle

VERSION = "4.4.0"
NOW = 1_800_000_000_000
RETENTION = 86_400_000
_WARM_UPS = 3
_LARGE_MIB, _LARGE_ROUNDS, _WARM_UP_MIB = 512, 5, 64
_MAP_LOAD = 0.6
_SEGMENT_BYTES, _INDEX_BYTES = 1 << 30, 10 * MIB
"""Kafka's defaults."""


@dataclass(frozen=True, slots=True)
class CleaningCase:
    """One codec, and how many times as fast as Kafka's cleaner we must be."""

    codec: str
    asked: Asked

    @property
    def name(self) -> str:
        return f"compact-{self.codec}"


CASES = (
    CleaningCase("none", Asked(4, 8)),
    CleaningCase("lz4", Asked(3, 8)),
    CleaningCase("zstd", Asked(2, 8)),
    CleaningCase("gzip", Asked(2, 8)),
)


def lines(case: CleaningCase, mib: int, rounds: int) -> Iterator[Line]:
    """Check that both leave the same files, then let them take turns.

    :raises Differ: they do not. :raises distribution.Unavailable: Kafka cannot be run here.
    """
    log = dirty_log(case.codec, mib)
    is_large = mib >= _LARGE_MIB
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(in_memory()))
        stack.enter_context(one_processor())
        kafka = stack.enter_context(StorageOracle(VERSION, heap="2g", seconds_for_an_answer=3600))
        if is_large:
            for contender in _contenders(dirty_log(case.codec, _WARM_UP_MIB), kafka, scratch / "small", stack):
                for _ in range(_WARM_UPS):
                    contender.seconds()
            shutil.rmtree(scratch / "small")
        contenders = _contenders(log, kafka, scratch, stack)
        outcome = take_turns(
            contenders,
            rounds=min(rounds, _LARGE_ROUNDS) if is_large else rounds,
            # A large one has been through the comparison.
            warm_ups=0 if is_large else _WARM_UPS,
        )
        del contenders
    yield compared(
        case.name,
        outcome,
        "ours",
        "Cleaner.doClean",
        raw_bytes=log.raw_bytes,
        records=log.records,
        must=case.asked.must,
        aim=case.asked.aim,
    )


def _contenders(log: DirtyLog, kafka: StorageOracle, scratch: Path, stack: ExitStack) -> list[Contender]:
    """Both on a log, which they leave the same files of.

    :raises Differ: they do not.
    """
    segments = stack.enter_context(opened(log))
    fields = request(log)
    _compare(log, segments, kafka, fields, scratch)
    source = _copied(log, scratch / "log" / log.path.name)

    def theirs() -> float:
        answer = kafka.ask("bench", what="clean", directory=source, rounds=1, **fields)
        return float(answer["rounds_ns"][0]) / 1e9

    def ours() -> None:
        cleaned(segments, scratch / "ours")

    return [Contender("ours", clocked(ours)), Contender("Cleaner.doClean", theirs)]


def request(log: DirtyLog) -> dict[str, Any]:
    """The order to Kafka, without the directory. Its map has room for every key that could be there."""
    return {
        "now": NOW,
        "config": {"cleanup.policy": "compact", "delete.retention.ms": str(RETENTION)},
        "map_bytes": min(max(int(log.records * KEYS_A_RECORD / _MAP_LOAD * 24), 4 * MIB), 2_000 * MIB),
        "clean_stop": True,
    }


def _round(segments: Sequence[SourceSegment]) -> CleaningRound:
    end = segments[-1].next_base_offset
    return CleaningRound(
        log_start_offset=0,
        first_dirty_offset=0,
        upper_bound_offset=end,
        high_watermark=end + 1_000_000,
        as_of_ms=NOW,
        delete_retention_ms=RETENTION,
        legacy_horizon_ms=0,
        line=BrokerLine.V4_4,
    )


def cleaned(segments: Sequence[SourceSegment], target: Path, *, keep: bool = True) -> list[CleanedSegment]:
    """A round of ours: files in the target, by the base offsets of what comes out. Without `keep` each is removed once
    it is written, so that the next one has its room."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    use_library(load_snappy_java)
    cleaner, made = CompiledCleaner(), []
    cleaner.build_map(segments, _round(segments))
    for group in group_segments(
        segments,
        segment_bytes=_SEGMENT_BYTES,
        segment_index_bytes=_INDEX_BYTES,
        upper_bound_offset=segments[-1].next_base_offset,
    ):
        name = f"{group[0].base_offset:020d}"
        with (target / f"{name}.log").open("wb", buffering=0) as sink:
            segment = cleaner.clean(group, sink)
        (target / f"{name}.index").write_bytes(segment.offset_index)
        (target / f"{name}.timeindex").write_bytes(segment.time_index)
        if not keep:
            for path in target.iterdir():
                path.unlink()
        made.append(segment)
    return made


def _compare(
    log: DirtyLog, segments: Sequence[SourceSegment], kafka: StorageOracle, fields: dict[str, Any], scratch: Path
) -> None:
    """
    :raises Differ: a file of ours is not what Kafka left.
    """
    theirs = _copied(log, scratch / "theirs" / log.path.name)
    kafka.ask("clean", directory=theirs, **fields)
    for segment in cleaned(segments, scratch / "ours"):
        for suffix in ("log", "index", "timeindex"):
            name = f"{segment.base_offset:020d}.{suffix}"
            if not filecmp.cmp(scratch / "ours" / name, theirs / name, shallow=False):
                raise Differ(f"{log.path.parent.name}: our {name} is not the one that Kafka left")
    shutil.rmtree(theirs)


def _copied(log: DirtyLog, target: Path) -> Path:
    shutil.copytree(log.path, target)
    return target


@contextmanager
def opened(log: DirtyLog) -> Iterator[list[SourceSegment]]:
    """The segments that are to be cleaned, mapped. Their indexes are as large as a broker's would be."""
    with ExitStack() as stack:
        paths = sorted(log.path.glob("*.log"))
        bases = [int(path.stem) for path in paths]
        segments = []
        for path, base, behind in zip(paths, bases, bases[1:], strict=False):
            stream = stack.enter_context(path.open("rb"))
            # Not closed: what still looks into it when an error passes by must be able to.
            content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            entries = len(content) // 16_000
            segments.append(SourceSegment(base, behind, content, 0, 8 * entries, 12 * entries))
        yield segments
