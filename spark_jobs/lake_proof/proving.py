"""The whole proof of a lake: everything in it, or a sample, by several threads.

Files are proved first, because the proof of a log needs their offsets. Offsets of a file are kept as runs, so that each
file is read once. Files that are not in the sample, or were proved before, are only read for their offsets.
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
from spark_jobs.lake.errors import JobError, LakeRefused, StorageError
from spark_jobs.lake.setup.identity import LAKE_FILE, read_identity
from spark_jobs.lake_proof.archive import archive_things, stray_files
from spark_jobs.lake_proof.commits import table_things
from spark_jobs.lake_proof.comparison import Archive
from spark_jobs.lake_proof.files import file_things
from spark_jobs.lake_proof.ledger import BatchFacts, log_things
from spark_jobs.lake_proof.progress import ProofProgress
from spark_jobs.lake_proof.proof import LakeFinding, Proof, Thing, finding
from spark_jobs.lake_proof.state import StateTables, read_lake, way_out

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
class ProofResult:
    """The result of all things."""

    proof: Proof = field(default_factory=Proof)
    things: int = 0
    """Proved now, or known from an interrupted proof."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Things left out: ``sample``, not in this part; ``resume``, proved by an earlier run."""


class NothingToProve(JobError):
    """There is no lake, or nothing in it. A check of nothing has not passed."""


def prove_lake(
    lake: str,
    say: Callable[[LakeFinding], None],
    *,
    sample: Sample | None = None,
    progress: ProofProgress | None = None,
    selection: LogSelection | None = None,
    step: Callable[[int, int, str], None] | None = None,
) -> ProofResult:
    """Prove a lake.

    Args:
        say: Called with each finding as soon as it is known, in this thread.
        selection: Logs that are proved; None: all.
        step: Called with the number of things done, the number of things to do, and the name of the last one.

    Raises:
        NothingToProve: There is no lake, it is empty, or nothing of it was chosen.
        JobError: The lake is refused, or its store does not answer.
    """
    if read_identity(lake) is None:
        raise NothingToProve(
            f"{lake} is no lake: it has no {LAKE_FILE}. If it was lost, `loglake run SOURCE --lake {lake}` writes "
            "a new one."
        )
    chosen = LogSelection() if selection is None else selection
    proving = _Proving(lake, say, sample or Sample(), progress or ProofProgress({}, None), chosen, step)
    try:
        return proving.run()
    except StorageError:
        raise
    except LogError as error:
        raise LakeRefused(str(error)) from error


class _Proving:
    """One proof under way."""

    def __init__(
        self,
        lake: str,
        say: Callable[[LakeFinding], None],
        sample: Sample,
        progress: ProofProgress,
        selection: LogSelection,
        step: Callable[[int, int, str], None] | None,
    ) -> None:
        self._lake, self._report, self._sample, self._progress = lake, say, sample, progress
        self._selection, self._step = selection, step
        self._outcome = ProofResult()
        self._done = self._total = 0

    def run(self) -> ProofResult:
        state = read_lake(self._lake)
        if not state.tables and not state.segments and not state.findings:
            raise NothingToProve(f"The lake {self._lake} is empty: nothing was taken into it yet.")
        self._take(Proof(list(state.findings)))
        archived = Archive(self._lake, state.held(), state.segments)
        things = [
            thing
            for some in (table_things(state), archive_things(state, self._selection), file_things(state, archived))
            for thing in some
        ]
        of_logs = self._log_things(state)
        things = self._chosen(state, things)
        of_logs = self._due(of_logs)
        self._total = self._done + len(things) + len(of_logs)
        with state.footers:
            self._prove(things)
            self._prove(of_logs)
        if self._sample.number == self._sample.total and self._selection.is_everything:
            self._take(stray_files(state))
        self._take(Proof(list(_undigested(self._outcome.proof.undigested))))
        if not self._outcome.things and not self._outcome.proof.findings:
            raise NothingToProve(f"Nothing of the lake {self._lake} was checked: this choice is empty.")
        return self._outcome

    def _log_things(self, state: StateTables) -> list[Thing]:
        facts = BatchFacts.read(state)
        return [
            thing
            for thing in log_things(state, facts)
            if self._selection.matches(state.topic_of(thing.name[4:]) or "", int(thing.name.rpartition("/")[2]))
        ]

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
        """Return things of this sample that no earlier run has proved; report the findings of earlier runs again."""
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

    def _prove(self, things: list[Thing]) -> None:
        """Prove things in threads. The queue is short, so that a kill loses little."""
        waiting: Iterator[Thing] = iter(things)
        running: dict[Future[Proof], Thing] = {}
        with ThreadPoolExecutor(THREADS) as threads:
            try:
                while True:
                    for thing in islice(waiting, 2 * THREADS - len(running)):
                        running[threads.submit(thing.prove)] = thing
                    if not running:
                        return
                    for done in wait(running, return_when=FIRST_COMPLETED).done:
                        self._proved(running.pop(done), done)
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise

    def _proved(self, thing: Thing, done: Future[Proof]) -> None:
        try:
            proof = done.result()
        except StorageError:
            raise
        except PermissionError as error:
            proof = Proof([finding("unreadable", f"{thing.name}: {error}.", file=error.filename)])
        else:
            self._progress.add(thing, proof)
        self._outcome.things += 1
        self._done += 1
        self._take(proof)
        if self._step is not None:
            self._step(self._done, self._total, thing.name)

    def _take(self, proof: Proof) -> None:
        self._outcome.proof.add(proof)
        for each in proof.findings:
            self._report(each)


def _undigested(tables: Iterable[str]) -> Iterator[LakeFinding]:
    """Report state tables with files that can only be compared with their own statistics."""
    for name, count in sorted(Counter(tables).items()):
        text = (
            f"Table {name}: {count} files have no row digest: an older Loglake or another engine wrote them. Their "
            f"rows are proved only as far as other tables and the archive agree. {way_out(name)}"
        )
        yield finding("not-provable", text, table=name)
