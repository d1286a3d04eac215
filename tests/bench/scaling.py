"""Whether maintenance is linear: a log eight times as large, and how much of our speed is left.

Logs are mapped and have been read once before the clock runs. What cleaning writes goes to files in memory, of which
each is removed when the next one begins, so that memory holds both logs, a map and one file.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter

from logcore.logs.compaction.cleaning_round import SourceSegment
from tests.bench.cleaning import cleaned, opened
from tests.bench.dirty_logs import DirtyLog, dirty_log
from tests.bench.quiet_place import in_memory, one_processor
from tests.bench.recovering import mapped, recovered
from tests.bench.results import Line, Unit, compared
from tests.bench.rounds import Contender, take_turns
from tests.bench.totals import Differ

COMPACTION, RECOVERY = "compact-scaling", "recover-scaling"
TIMES = 8
MUST, AIM = 0.7, 0.9

Work = Callable[[], object]


def compaction_lines(mib: int, rounds: int) -> Iterator[Line]:
    """Rounds of cleaning. What stays of either log is counted first.

    :raises Differ: it is not what was drawn when the log was made.
    """
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(in_memory()))

        def work(log: DirtyLog) -> Work:
            segments = stack.enter_context(opened(log))
            _count(log, segments, scratch)
            return lambda: cleaned(segments, scratch / "ours", keep=False)

        yield _compared(COMPACTION, mib, rounds, work, stack)


def recovery_lines(mib: int, rounds: int) -> Iterator[Line]:
    """Recoveries with all indexes. Both logs have to come out whole.

    :raises Differ: one does not.
    """
    with ExitStack() as stack:

        def work(log: DirtyLog) -> Work:
            segments = mapped(log.path)
            for base_offset, found in recovered(segments).items():
                if found.valid_bytes != len(segments[base_offset]) or found.stopped_by is not None:
                    raise Differ(f"{log.path.parent.name}: the segment at {base_offset} does not come out whole")
            return lambda: recovered(segments)

        yield _compared(RECOVERY, mib, rounds, work, stack)


def _compared(name: str, mib: int, rounds: int, work: Callable[[DirtyLog], Work], stack: ExitStack) -> Line:
    """The large log against the small one, each on one processor."""
    small, large = dirty_log("none", mib), dirty_log("none", TIMES * mib)
    stack.enter_context(one_processor())
    contenders = [_contender(log, small, work(log)) for log in (small, large)]
    outcome = take_turns(contenders, rounds=rounds)
    return compared(
        f"{name}-{TIMES * mib}-mib",
        outcome,
        _size(large),
        _size(small),
        raw_bytes=small.raw_bytes,
        records=small.records,
        must=MUST,
        aim=AIM,
        unit=Unit.OF_ITS_SPEED,
    )


def _contender(log: DirtyLog, small: DirtyLog, work: Work) -> Contender:
    """Its times are for as many records as the small log has."""

    def seconds() -> float:
        begun = perf_counter()
        work()
        return perf_counter() - begun

    return Contender(_size(log), seconds, log.records / small.records)


def _size(log: DirtyLog) -> str:
    return f"{log.records / 1e6:.1f} million records"


def _count(log: DirtyLog, segments: Sequence[SourceSegment], scratch: Path) -> None:
    made = cleaned(segments, scratch / "counted", keep=False)
    shutil.rmtree(scratch / "counted")
    begins = [each.base_offset for each in made]
    drawn = dict.fromkeys(begins, 0)
    for segment, count in zip(segments, log.last_of_key, strict=True):
        drawn[max(begin for begin in begins if begin <= segment.base_offset)] += count
    for each in made:
        if each.records != drawn[each.base_offset]:
            raise Differ(
                f"{log.path.parent.name}: {each.records} records stay in the segment at {each.base_offset}, not "
                f"{drawn[each.base_offset]}"
            )
