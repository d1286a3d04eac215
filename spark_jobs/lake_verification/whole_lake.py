"""The whole verification of a lake: everything in it, or a sample, by several threads.

Files are verified first, because the verification of a log needs their offsets. Offsets of a file are kept as runs, so
that each file is read once. Files that are not in the sample, or were verified before, are only read for their offsets.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice

from logcore.errors import LogError
from logcore.logs.model.log_selection import LogSelection
from logcore.reading.nearest_names import unmatched
from spark_jobs.errors import JobError, LakeRefused, StorageError
from spark_jobs.lake.repair_commands import run_command
from spark_jobs.lake.setup.identity import LAKE_FILE, read_identity
from spark_jobs.lake.view.runs.run_ends import first_run_killed
from spark_jobs.lake_verification.archive import archive_things, stray_files
from spark_jobs.lake_verification.commits import table_things
from spark_jobs.lake_verification.comparison import Archive
from spark_jobs.lake_verification.decoded_tables.topic_verification import decoded_things
from spark_jobs.lake_verification.files import file_things
from spark_jobs.lake_verification.ledger import BatchFacts, log_things
from spark_jobs.lake_verification.progress import VerificationProgress
from spark_jobs.lake_verification.state import StateTables, read_lake, way_out
from spark_jobs.lake_verification.verified_thing import Thing, ThingResult, finding
from spark_jobs.placed_finding import PlacedFinding

THREADS = max(2, min(8, os.cpu_count() or 2))


@dataclass(frozen=True, slots=True)
class Sample:
    """The ``number``-th of ``total`` equal parts of everything; all parts together are everything."""

    number: int = 1
    total: int = 1

    def holds(self, thing: Thing) -> bool:
        """Return whether a thing is in this part; the same in every run."""
        if self.total == 1:
            return True
        digest = hashlib.sha256(thing.name.encode()).digest()
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
    name: str
    """Of the last thing."""


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
) -> LakeVerification:
    """Verify a lake.

    Args:
        say: Called with each finding as soon as it is known, in this thread.
        now_ms: The clock, epoch milliseconds.
        selection: Logs that are verified; None: all.
        step: Called with the progress after each thing.

    Raises:
        NothingToVerify: There is no lake, it is empty, its first run was killed, or nothing of it was chosen.
        JobError: The lake is refused, or its store does not answer.
    """
    killed = first_run_killed(lake, now_ms)
    if killed is not None:
        raise NothingToVerify(killed)
    if read_identity(lake) is None:
        raise NothingToVerify(
            f"{lake} is no lake: it has no {LAKE_FILE}. If it was lost, `{run_command(lake)}` writes a new one."
        )
    chosen = LogSelection() if selection is None else selection
    verifying = _WholeLake(lake, say, sample or Sample(), progress or VerificationProgress({}, None), chosen, step)
    try:
        return verifying.run()
    except StorageError:
        raise
    except LogError as error:
        raise LakeRefused(str(error)) from error


class _WholeLake:
    """One verification under way."""

    def __init__(
        self,
        lake: str,
        say: Callable[[PlacedFinding], None],
        sample: Sample,
        progress: VerificationProgress,
        selection: LogSelection,
        step: Callable[[VerifiedSoFar], None] | None,
    ) -> None:
        self._lake, self._report, self._sample, self._progress = lake, say, sample, progress
        self._selection, self._step = selection, step
        self._outcome = LakeVerification()
        self._done = self._total = 0
        self._done_bytes = self._total_bytes = 0

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
        of_logs = self._log_things(state)
        decoded = self._decoded_things(state)
        things = [*self._chosen(state, things), *self._due(decoded)]
        of_logs = self._due(of_logs)
        self._total = self._done + len(things) + len(of_logs)
        self._total_bytes = sum(thing.size for thing in (*things, *of_logs))
        with state.footers:
            self._verify(things)
            self._verify(of_logs)
        if self._sample.number == self._sample.total and self._selection.is_everything:
            self._take(stray_files(state))
        self._take(ThingResult(list(_undigested(self._lake, self._outcome.result.undigested))))
        if not self._outcome.things and not self._outcome.result.findings:
            more = unmatched(self._selection, (segment.topic for segment in state.segments))
            raise NothingToVerify(f"Nothing of the lake {self._lake} was checked: this choice is empty.{more}")
        return self._outcome

    def _log_things(self, state: StateTables) -> list[Thing]:
        facts = BatchFacts.read(state)
        return [
            thing
            for thing in log_things(state, facts)
            if self._selection.matches(state.topic_of(thing.name[4:]) or "", int(thing.name.rpartition("/")[2]))
        ]

    def _decoded_things(self, state: StateTables) -> list[Thing]:
        """The decoded tables of the topics of chosen logs."""
        chosen = {log.topic for log in state.logs.values() if self._selection.matches(log.topic, log.partition)}
        return list(decoded_things(self._lake, [log for log in state.logs.values() if log.topic in chosen]))

    def _chosen(self, state: StateTables, things: Iterable[Thing]) -> list[Thing]:
        if self._selection.is_everything:
            return self._due(things)
        kept = []
        of_files = {f"file/{name}/{file.path}": file for name, opened in state.tables.items() for file in opened.files}
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
            if not self._sample.holds(thing):
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

    def _verify(self, things: list[Thing]) -> None:
        """Verify things in threads. The queue is short, so that a kill loses little."""
        waiting: Iterator[Thing] = iter(things)
        running: dict[Future[ThingResult], Thing] = {}
        with ThreadPoolExecutor(THREADS) as threads:
            try:
                while True:
                    for thing in islice(waiting, 2 * THREADS - len(running)):
                        running[threads.submit(thing.verify)] = thing
                    if not running:
                        return
                    for done in wait(running, return_when=FIRST_COMPLETED).done:
                        self._verified(running.pop(done), done)
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise

    def _verified(self, thing: Thing, done: Future[ThingResult]) -> None:
        try:
            result = done.result()
        except StorageError:
            raise
        except PermissionError as error:
            result = ThingResult([finding("unreadable", f"{thing.name}: {error}.", file=error.filename)])
        else:
            self._progress.add(thing, result)
        self._outcome.things += 1
        self._done += 1
        self._done_bytes += thing.size
        self._take(result)
        if self._step is not None:
            self._step(VerifiedSoFar(self._done, self._total, self._done_bytes, self._total_bytes, thing.name))

    def _take(self, result: ThingResult) -> None:
        self._outcome.result.add(result)
        for each in result.findings:
            self._report(each)


def _undigested(lake: str, tables: Iterable[str]) -> Iterator[PlacedFinding]:
    """Report state tables with files that can only be compared with their own statistics."""
    for name, count in sorted(Counter(tables).items()):
        text = (
            f"Table {name}: {count} files have no row digest: an older Loglake or another engine wrote them. Their "
            f"rows are verified only as far as other tables and the archive agree. {way_out(lake, name)}"
        )
        yield finding("not-provable", text, table=name)
