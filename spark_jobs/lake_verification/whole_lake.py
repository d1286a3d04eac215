"""The whole verification of a lake: everything in it, or a sample, as tasks.

Files are verified first, because the verification of a log needs their offsets. Offsets of a file are kept as runs, so
that each file is read once. Files that are not in the sample, or were verified before, are only read for their offsets.
Where the executor has a shuffle, other tasks read the offsets, and they do not pass through this process.

Things are verified in waves of at least :data:`WAVE_BYTES`, so that their findings are said and their results stored
meanwhile. A killed verification loses one wave.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from logcore.errors import LogError
from logcore.logs.model.findings import Severity
from logcore.logs.model.log_selection import LogSelection
from logcore.reading.nearest_names import unmatched
from spark_jobs.engine.executor import Executor, TaskFailed, counting, run_surviving
from spark_jobs.engine.job_engine import is_engine_requested
from spark_jobs.engine.shuffle import ShufflingExecutor
from spark_jobs.errors import JobError, LakeRefused, StorageError
from spark_jobs.lake.repair_commands import no_lake
from spark_jobs.lake.setup.identity import read_identity
from spark_jobs.lake.view.runs.run_ends import first_run_killed
from spark_jobs.lake.view.verified_damage import keep_verified_damage
from spark_jobs.lake_verification.archive import archive_things, stray_files
from spark_jobs.lake_verification.commits import table_things
from spark_jobs.lake_verification.comparison import Archive
from spark_jobs.lake_verification.files import file_things
from spark_jobs.lake_verification.ledger import batch_sums, compare_rows, log_things, logs_of
from spark_jobs.lake_verification.progress import VerificationProgress
from spark_jobs.lake_verification.state import StateTables, file_name, read_lake, way_out
from spark_jobs.lake_verification.topic_verification import decoded_things
from spark_jobs.lake_verification.verified_thing import (
    Thing,
    ThingResult,
    finding,
    verify_thing,
    verify_without_offsets,
)
from spark_jobs.placed_finding import PlacedFinding

SMALL_BYTES = 128 << 20
"""Less is verified in this process: workers would take longer to start."""
WAVE_BYTES = 1 << 30
WAVES = 64
"""A large lake is verified in so many waves."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The ``number``-th of ``total`` equal parts of everything; all parts together are everything."""

    number: int = 1
    total: int = 1

    def holds(self, name: str) -> bool:
        """Return whether the thing of a name is in this part; the same in every run."""
        if self.total == 1:
            return True
        digest = hashlib.sha256(name.encode()).digest()
        return int.from_bytes(digest[:8], "big") % self.total == self.number - 1


@dataclass(slots=True)
class LakeVerification:
    """The result of all things."""

    result: ThingResult = field(default_factory=ThingResult)
    things: int = 0
    """Verified now, or known from an interrupted verification."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Things left out: ``sample``, not in this part; ``resume``, verified by an earlier run."""


@dataclass(frozen=True, slots=True)
class VerifiedSoFar:
    """The progress of a verification: things, and the bytes that are read for them."""

    done: int
    total: int
    done_bytes: int
    total_bytes: int
    name: str = ""
    """Of the last thing, if it is known."""


class NothingToVerify(JobError):
    """There is no lake, or nothing in it. A check of nothing has not passed."""


def verify_whole_lake(
    lake: str,
    say: Callable[[PlacedFinding], None],
    now_ms: int,
    *,
    sample: Sample | None = None,
    progress: VerificationProgress | None = None,
    selection: LogSelection | None = None,
    step: Callable[[VerifiedSoFar], None] | None = None,
    start: Callable[[int], Executor] | None = None,
) -> LakeVerification:
    """Verify a lake. The home keeps which files are damaged, for alarms.

    Args:
        say: Called with each finding as soon as it is known, in this thread.
        now_ms: The clock, epoch milliseconds.
        selection: Logs that are verified; None: all.
        step: Called with the progress after each thing.
        start: Starts what runs tasks that read so many bytes; None: this process.

    Raises:
        NothingToVerify: There is no lake, it is empty, its first run was killed, or nothing of it was chosen.
        JobError: The lake is refused, or its store does not answer.
    """
    killed = first_run_killed(lake, now_ms)
    if killed is not None:
        raise NothingToVerify(killed)
    if read_identity(lake) is None:
        raise NothingToVerify(no_lake(lake))
    chosen = LogSelection() if selection is None else selection
    known = progress or VerificationProgress({}, None)
    part = sample or Sample()
    found: list[PlacedFinding] = []

    def hear(placed: PlacedFinding) -> None:
        if placed.finding.severity is Severity.ERROR:
            found.append(placed)
        say(placed)

    try:
        outcome = _WholeLake(lake, hear, part, known, chosen, step, start).run()
    except StorageError:
        raise
    except LogError as error:
        raise LakeRefused(str(error)) from error
    keep_verified_damage(lake, found, is_whole=part.total == 1 and chosen.is_everything)
    return outcome


def sample_bytes(lake: str, sample: Sample) -> int | None:
    """What the verification of a part reads; None: so little that it needs no workers.

    Tables of topics count only where the rest is small: to open all of them takes long.
    """
    try:
        state = read_lake(lake)
    except LogError:
        return None  # the verification refuses the lake, and says why
    archived = {f"archive/{segment.segment_id}": segment.size for segment in state.segments if segment.is_kept}
    files = {file_name(table.name, file): file.size for table in state.tables.values() for file in table.files}
    nbytes = sum(size for name, size in (archived | files).items() if sample.holds(name))
    if _is_small(nbytes):
        nbytes += sum(each.size for each in decoded_things(lake, [*state.logs.values()]) if sample.holds(each.name))
    return None if _is_small(nbytes) else nbytes


def _is_small(nbytes: int) -> bool:
    """Whether this process verifies so many bytes."""
    return nbytes < SMALL_BYTES and not is_engine_requested()


@dataclass(slots=True)
class _WholeLake:
    """One verification under way."""

    _lake: str
    _report: Callable[[PlacedFinding], None]
    _sample: Sample
    _progress: VerificationProgress
    _selection: LogSelection
    _step: Callable[[VerifiedSoFar], None] | None
    _start: Callable[[int], Executor] | None
    _outcome: LakeVerification = field(default_factory=LakeVerification)
    _done: int = 0
    _total: int = 0
    _done_bytes: int = 0
    _total_bytes: int = 0

    def run(self) -> LakeVerification:
        state = read_lake(self._lake)
        if not state.tables and not state.segments and not state.findings:
            raise NothingToVerify(f"The lake {self._lake} is empty: nothing was taken into it yet.")
        self._take(ThingResult(list(state.findings)))
        archived = Archive(self._lake, state.held(), state.segments)
        things = [
            thing
            for some in (table_things(state), archive_things(state, self._selection), file_things(state, archived))
            for thing in some
        ]
        # What a lost table makes wrong is right again when the table is there: it is no harm of its own.
        lost = {placed.table for placed in state.findings if placed.finding.rule == "table-missing"}
        sums, logs = batch_sums(state), [] if "offset_ledger" in lost else self._logs(state)
        of_topics = self._decoded_things(state)
        if "records" in lost:
            of_topics = [thing for thing in of_topics if not thing.name.startswith("rows/")]
        things = [*self._chosen(state, things), *self._due(of_topics)]
        self._total = self._done + len(things) + sum(self._sample.holds(f"log/{log}") for log in logs)
        self._total_bytes = sum(thing.size for thing in things)
        executor = self._executor()
        for thing, result in self._verified(executor, things):
            if result.offsets:
                state.offsets[thing.name] = result.offsets
        due = self._due(log_things(state, logs, sums))
        if isinstance(executor, ShufflingExecutor):
            due = _compared(executor, state, due)
        for _ in self._verified(executor, due):
            pass
        if self._sample.number == self._sample.total and self._selection.is_everything:
            self._take(stray_files(state))
        self._take(ThingResult(list(_undigested(self._lake, self._outcome.result.undigested))))
        if not self._outcome.things and not self._outcome.result.findings:
            more = unmatched(self._selection, (segment.topic for segment in state.segments))
            raise NothingToVerify(f"Nothing of the lake {self._lake} was checked: this choice is empty.{more}")
        return self._outcome

    def _logs(self, state: StateTables) -> list[str]:
        return [
            log
            for log in logs_of(state)
            if self._selection.matches(state.topic_of(log) or "", int(log.rpartition("/")[2]))
        ]

    def _decoded_things(self, state: StateTables) -> list[Thing]:
        """The decoded tables of the topics of chosen logs."""
        chosen = {log.topic for log in state.logs.values() if self._selection.matches(log.topic, log.partition)}
        return list(decoded_things(self._lake, [log for log in state.logs.values() if log.topic in chosen]))

    def _chosen(self, state: StateTables, things: Iterable[Thing]) -> list[Thing]:
        if self._selection.is_everything:
            return self._due(things)
        kept = []
        of_files = {file_name(name, file): file for name, opened in state.tables.items() for file in opened.files}
        for thing in things:
            file = of_files.get(thing.name)
            if file is None:
                if thing.name.startswith("archive/"):
                    kept.append(thing)
                continue
            topic = file.partition_values.get("topic")
            if topic is not None and (file.partition is None or self._selection.matches(topic, file.partition)):
                kept.append(thing)
        return self._due(kept)

    def _due(self, things: Iterable[Thing]) -> list[Thing]:
        """Return things of this sample that no earlier run has verified; report the findings of earlier runs again."""
        due = []
        for thing in things:
            if not self._sample.holds(thing.name):
                self._outcome.skipped["sample"] += 1
                continue
            known = self._progress.known(thing)
            if known is None:
                due.append(thing)
                continue
            self._outcome.skipped["resume"] += 1
            self._outcome.things += 1
            self._done += 1
            self._take(known)
        return due

    def _executor(self) -> Executor | None:
        return None if self._start is None or _is_small(self._total_bytes) else self._start(self._total_bytes)

    def _verified(self, executor: Executor | None, things: Sequence[Thing]) -> Iterator[tuple[Thing, ThingResult]]:
        """Verify things; yield each with its result."""
        work = verify_without_offsets if isinstance(executor, ShufflingExecutor) else verify_thing
        for wave in _waves(things, 1 if executor is None else max(WAVE_BYTES, self._total_bytes // WAVES)):
            with self._counted(executor):
                results = run_surviving(executor, work, wave, [thing.size for thing in wave], _died)
            done = list(zip(wave, results, strict=True))
            for thing, result in done:
                if result.error is None:
                    self._note(thing, result)
            for error in (result.error for result in results if result.error is not None):
                raise error
            yield from done

    def _note(self, thing: Thing, result: ThingResult) -> None:
        if result.is_final:
            self._progress.add(thing, result)
        self._outcome.things += 1
        self._done += 1
        self._done_bytes += thing.size
        self._take(result)
        self._show(self._done, self._done_bytes, thing.name)

    @contextmanager
    def _counted(self, executor: Executor | None) -> Iterator[None]:
        """Show the progress of a wave, if nobody else does."""
        counted = None if executor is None or self._step is None else counting(executor)
        if counted is None:
            yield
            return
        counted.on_progress = lambda far: self._show(self._done + far.done, self._done_bytes + (far.done_bytes or 0))
        try:
            yield
        finally:
            counted.on_progress = None

    def _show(self, done: int, done_bytes: int, name: str = "") -> None:
        if self._step is not None:
            self._step(VerifiedSoFar(done, self._total, done_bytes, self._total_bytes, name))

    def _take(self, result: ThingResult) -> None:
        self._outcome.result.add(result)
        for each in result.findings:
            self._report(each)


def _compared(executor: ShufflingExecutor, state: StateTables, due: list[Thing]) -> list[Thing]:
    """Logs with the comparison of their rows; without it where a worker died: then the task of each log compares."""
    try:
        return compare_rows(executor, state, due)
    except TaskFailed:
        raise
    except JobError:
        return due


def _died(thing: Thing, how: str) -> ThingResult:
    """The result of a thing whose workers died."""
    return ThingResult(
        error=JobError(
            f"Not everything was verified: the worker of {thing.name} {how}. Where memory is short, run with fewer "
            "processes (LOGLAKE_PROCESSES)."
        )
    )


def _waves(things: Sequence[Thing], most: int) -> Iterator[Sequence[Thing]]:
    """Cut things into runs of about ``most`` bytes each."""
    wave: list[Thing] = []
    left = most
    for thing in things:
        wave.append(thing)
        left -= max(thing.size, 1)
        if left <= 0:
            yield wave
            wave, left = [], most
    if wave:
        yield wave


def _undigested(lake: str, tables: Iterable[str]) -> Iterator[PlacedFinding]:
    """Report state tables with files that can only be compared with their own statistics."""
    for name, count in sorted(Counter(tables).items()):
        text = (
            f"Table {name}: {count} files have no row digest: an older Loglake or another engine wrote them. Their "
            f"rows are verified only as far as other tables and the archive agree. {way_out(lake, name)}"
        )
        yield finding("not-provable", text, table=name)
