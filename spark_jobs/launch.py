"""How a lake is opened and a job is started: plan first; an empty plan starts nothing.

One executor serves every job of a process. A command that starts several jobs on a lake checks first what can be
known before them (:func:`check_run`) and holds the lease from the first to the last (:func:`open_lake`).

``python -m spark_jobs`` starts one job with the same configuration as JSON, which is what is submitted to a cluster.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.machinery import ModuleSpec
from typing import Any, Protocol

from logcore.logs.model.log_selection import LogSelection
from logcore.reading.chosen_logs import nothing_chosen
from logcore.segments.filenames import TopicPartition
from logcore.storage.discovery import discover, shown, source_path
from logcore.storage.objects.addresses import AddressError, absolute, is_object
from logcore.storage.objects.answers import said
from logcore.texts import sentences
from spark_jobs.contracts import Intake, JobConfig, JobReport
from spark_jobs.engine import job_engine as engines
from spark_jobs.engine.executor import Executor, counting, workers_of
from spark_jobs.engine.job_engine import JobEngine, chosen_engine
from spark_jobs.engine.job_engine import is_engine_requested as is_engine_requested
from spark_jobs.engine.task_progress import JobListener as JobListener
from spark_jobs.engine.task_progress import TaskProgress as TaskProgress
from spark_jobs.errors import JobError, NothingChosen, SourceUnread, UsageError
from spark_jobs.ingest.intake_results import IntakeExecutor
from spark_jobs.ingest.intake_results import IntakeResults as IntakeResults
from spark_jobs.lake.delta.files.row_counts import refuse_foreign_rows
from spark_jobs.lake.delta.tables import table_features
from spark_jobs.lake.delta.tables.snapshots import forget_snapshots
from spark_jobs.lake.delta.tables.snapshots import pinned_snapshots as pinned_snapshots
from spark_jobs.lake.retries import retried
from spark_jobs.lake.segments import archive
from spark_jobs.lake.setup import identity, registry
from spark_jobs.lake.setup.placement import check_outside_lakes, check_place, check_writable
from spark_jobs.lake.store import local_copies
from spark_jobs.lake.store.lease import hold
from spark_jobs.lake.view.registered_lakes import check_policies, held_logs
from spark_jobs.lake.view.runs.run_ends import forget_ends
from spark_jobs.outlines import Outline_co
from spark_jobs.policies.policies_file import Policies, read_policies

PLAN_ATTEMPTS = 3
"""How often a job looks again after another commit overtook its plan."""

WITHOUT_LEASE = frozenset({"verify"})
"""Jobs that only read, and so long that other runs must not wait for them."""
HAND_OVER = ("ingest", "validate", "publish")
"""Jobs of an intake that hand results of tasks to one another. After ``publish`` nobody uses what is left."""
REWRITES_RECORDS = ("replace", "optimize")
"""Jobs that take files of ``records`` away."""


class Plan(Protocol[Outline_co]):
    """What every job's plan can say of itself."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""

    @property
    def task_bytes(self) -> int | None:
        """Bytes that the tasks of the job read, 0 if that is not known; None: it has no tasks."""

    @property
    def outline(self) -> Outline_co:
        """What a report and a dry run say of it."""


def plan(config: JobConfig[Outline_co]) -> Plan[Outline_co]:
    """The plan of a job: a value that one can print. Planning starts no executor.

    Raises:
        TableRefused: a table is of a kind that the job does not work on.
    """
    refuse_tables(config.lake, rewrites=config.JOB in REWRITES_RECORDS)
    made: Plan[Outline_co] = _job(config.JOB).plan(config)
    return made


def refuse_tables(lake: str, *, rewrites: bool = False) -> None:
    """Check that jobs work on the tables of a lake.

    Args:
        lake: the lake.
        rewrites: whether rows of ``records`` are to be written again.

    Raises:
        TableRefused: a table is of a kind that no job works on, or has rows that another program removed or wrote; the
            text says what to do.
    """
    table_features.refuse_unsupported(lake, rewrites=rewrites)
    refuse_foreign_rows(lake)


def check_run(
    lake: str,
    sources: Sequence[str],
    beside: Sequence[str],
    policies: Policies,
    engine: str | None = None,
    chosen: LogSelection | None = None,
) -> None:
    """Check everything that a run needs and that can be known before it. Nothing is created.

    Args:
        lake: absolute, a directory or ``s3://bucket/prefix``.
        sources: absolute local paths, or ``s3://bucket/prefix``.
        beside: the same of other copies of the logs, and of remote storage.
        policies: of the run.
        engine: what will run the tasks, as for :func:`run`.
        chosen: the logs to read; None: all.

    Raises:
        UsageError: lake and sources lie in one another, the lake lies in another one, the policies cannot be read or
            are needed and not named, or the lake's address cannot be used.
        SourceUnread: no source is there.
        NothingChosen: the lake is new, and no log of the sources is chosen; without sources, none of the lake.
        JobError: the lake cannot be written or is of a newer layout, or Spark was
            chosen and there is no Java for it.
    """
    check_place(lake, (*sources, *beside, *policies.lake.remote))
    refuse_missing(sources, max(len(sources) - 1, 0))
    check_writable(lake)
    chosen_engine(engine)
    if identity.read_identity(lake) is None:
        if not sources:
            raise UsageError(f"{shown(lake)} is no lake. Name the log directories of its first run. Nothing was made.")
        check_outside_lakes(sources)
        _check_first_sources(sources, engine, chosen or LogSelection())
    else:
        check_policies(lake, policies.path)
        if not sources and chosen is not None and not chosen.is_everything:
            _check_choice(chosen, {*held_logs(lake).values()})


def refuse_missing(paths: Sequence[str], most: int = 0) -> None:
    """Check that local paths exist.

    Args:
        paths: absolute local paths, or ``s3://bucket/prefix``, which is not looked at.
        most: how many may be missing.

    Raises:
        SourceUnread: more are missing.
    """
    missing = [path for path in paths if not (is_object(path) or os.path.lexists(path))]
    if len(missing) > most:
        places = " ".join(f"{shown(path)} does not exist." for path in missing)
        raise SourceUnread(f"{places} Nothing was made or changed.")


def check_copies(lake: str, paths: Sequence[str]) -> None:
    """Check that each copy that a command names has a log.

    Raises:
        UsageError: lake and copy lie in one another.
        SourceUnread: one is missing, or has none.
    """
    check_place(lake, paths)
    refuse_missing(paths)
    for path in paths:
        if not is_object(path) and not (seen := discover([source_path(path)])).logs:
            said = [each.message for each in seen.findings] or [f"{shown(path)} has no log."]
            raise SourceUnread(sentences([*said, "Nothing was made or changed."]))


def read_usable_policies(path: str) -> Policies:
    """Read a policies file that an operator names, and check it as ``loglake config check`` and ``loglake run`` do.

    Schemas and suites that it names must be usable too. Later, a registered file whose schema breaks makes its topic
    wait, and the other work of a run goes on.

    Args:
        path: The file.

    Raises:
        UsageError: A line for each mistake.
    """
    policies, mistakes = read_policies(path), []
    for policy in policies.topics:
        lines = dict(policy.lines)
        checks: list[tuple[tuple[str, ...], Callable[[], object]]] = []
        if policy.decodes:
            from spark_jobs.decode.decoding import Format

            of_parts = ((part, partial(Format.of, policy, "", part)) for part in ("key", "value"))
            checks += [((f"decode_{part}_schema", f"decode_{part}"), check) for part, check in of_parts]
        for field in ("expectations_suite", "decode_expectations_suite"):
            suite = getattr(policy, field)
            if suite is not None:
                from spark_jobs.expectations.user_suites import check_suite

                checks.append(((field,), partial(check_suite, suite)))
        for stated, check in checks:
            try:
                check()
            except UsageError as error:
                line = next((lines[field] for field in stated if field in lines), None)
                mistakes.append(f"{path}, line {line}: {str(error).rstrip('.')}.")
    if mistakes:
        raise UsageError("\n".join(mistakes))
    return policies


_WRONG_PLACES = ("not-a-log-directory", "not-a-segment", "illegal-topic-name")


def _check_first_sources(sources: Sequence[str], engine: str | None, chosen: LogSelection) -> None:
    """Check, before a lake is made, that there is something to read, and something to run its tasks."""
    found = discover([source_path(path) for path in sources])
    names = {log.topic_partition for log in found.logs}
    _check_choice(chosen, names)
    if names:
        check_engine(engine)  # a first run always has tasks; whether a later one does, its plans say
    elif all(map(is_object, sources)) or any(each.rule in _WRONG_PLACES for each in found.findings):
        raise JobError(sentences([*(each.message for each in found.findings), "Nothing was made or changed."]))


def _check_choice(chosen: LogSelection, names: Collection[TopicPartition]) -> None:
    if names and not any(chosen.matches(name.topic, name.partition) for name in names):
        said = (each.message for each in nothing_chosen(chosen, names))
        raise NothingChosen(sentences([*said, "Nothing was made or changed."]))


def source_place(path: str) -> str:
    """Return the absolute path of a source, or its name on an object store without a slash at its end.

    Raises:
        UsageError: The name of an object store cannot be used.
    """
    try:
        return absolute(path)
    except AddressError as error:
        raise UsageError(str(error)) from error


@contextlib.contextmanager
def open_lake(lake: str, purpose: str, command: str = "") -> Iterator[None]:
    """Hold the lease of a lake for several jobs, so that no other process works on it between them.

    Args:
        purpose: what holds it, for the process that is refused: ``loglake run``.
        command: what to type again if this process is killed.

    Raises:
        LeaseHeld: another process works on the lake.
        StorageError: the object store did not answer.
    """
    with hold(lake, purpose, command):
        forget_snapshots(lake)
        yield


def register(lake: str, intake: Intake | None = None, before: Collection[str] = ()) -> None:
    """Register a lake in the operator's home, so that pages show it.

    Args:
        intake: what was taken into it, for later runs; None: a registered lake stays as it is.
        before: where its logs were, if the run could move them: sources that all of them left are forgotten. If none
            was moved or read, the lake took nothing from the intake, which is not registered.

    Raises:
        UsageError: its registration cannot be used.
    """
    now = sources_of_logs(lake) if before and intake is not None else set()
    if intake is None or (now and not _reads(intake, now)):
        registry.register(lake)
    else:
        registry.remember(lake, intake, {*before} - now, now)


def _reads(intake: Intake, directories: Collection[str]) -> bool:
    """Whether any of some partition directories belongs to the sources of an intake."""
    files = {os.path.dirname(path) for path in intake.sources}
    return any(each in files or registry.paths_to(each, intake) for each in directories)


def sources_of_logs(lake: str) -> set[str]:
    """Return the partition directories from which a lake reads its logs."""
    rows = sorted(archive.read_logs(lake).values(), key=lambda row: row.incarnation)
    return set({row.topic_partition: row.source for row in rows}.values())


def forget_remote(lake: str, intake: Intake) -> tuple[str, ...]:
    """Forget the remote storage that earlier runs of these sources named, in each registration that has one of them.

    Args:
        intake: of this run, completed by what is remembered.

    Returns:
        the places of the storage in their order, each once.

    Raises:
        UsageError: segments of the lake are registered there, or its registration cannot be used.
    """
    held = [segment for segment in archive.read_segments(lake) if segment.lies_at_source]
    places = tuple(sorted({*intake.remote, *registry.remote_of(lake, intake.sources)}))
    for place in places:
        there = [segment for segment in held if segment.path.startswith(place.rstrip("/") + "/")]
        if there:
            first = min(there, key=lambda segment: (segment.topic, segment.partition, segment.base_offset))
            raise UsageError(
                f"{shown(place)} is not forgotten: {len(there)} segments of the lake are registered there and were not "
                f"copied, such as offsets [{first.base_offset}, {first.next_offset}) of {first.topic}-"
                f"{first.partition}. The lake reads them there. To do without the storage, read the sources into a new "
                "lake with --mode copy."
            )
    registry.forget_remote(lake, intake.sources)
    return places


def forget_sources(lake: str, paths: Collection[str]) -> None:
    """Forget registered sources of a lake, and what runs found there. Killed in between, the same call goes on.

    Raises:
        UsageError: One is not registered, or the registration cannot be used.
        JobError: The home cannot be written.
    """
    registry.check_sources(lake, paths)
    forget_ends(lake, paths)
    registry.forget_sources(lake, paths)


ORDINARY_ENGINE = ": ".join(engines.ORDINARY_ENGINE)
"""The engine in a report where nobody chose anything."""


def check_engine(engine: str | None = None) -> None:
    """Whether the engine of jobs could start here; 0.1 s.

    Raises:
        JobError: it is Spark, and there is no usable Java; the text says what to install.
        UsageError: no such engine.
    """
    if chosen_engine(engine)[0] is JobEngine.SPARK:
        from spark_jobs.engine.java import find_java

        find_java()


@contextlib.contextmanager
def intake(lake: str, engine: str | None = None) -> Iterator[IntakeResults]:
    """What the jobs of a chain hand to one another; for chains that run them all on a lake, in this process."""
    is_local = chosen_engine(engine)[0] is JobEngine.LOCAL
    with local_copies.keeping(lake) if is_local else contextlib.nullcontext(), IntakeResults() as results:
        yield results


def report_if_empty(config: JobConfig[Outline_co]) -> JobReport[Outline_co] | None:
    """Plan a job and report that it has nothing to do. Nothing is written.

    Returns:
        The report that :func:`run` would return; None if the plan has work.

    Raises:
        JobError: The plan cannot be made.
    """
    identity.read_identity(config.lake)
    made = plan(config)
    return JobReport.of(config, made.outline) if made.is_empty else None


def run(
    config: JobConfig[Outline_co],
    *,
    engine: str | None = None,
    by_dagster: bool = False,
    listener: JobListener | None = None,
    results: IntakeResults | None = None,
) -> JobReport[Outline_co]:
    """Run the job of a configuration to its end.

    Args:
        engine: ``local`` or ``spark``, or what the report of an earlier job of the run says; None or ``auto``: as
            :func:`spark_jobs.engine.job_engine.chosen_engine` decides.
        by_dagster: whether Dagster started the run.
        listener: gets what happens meanwhile; None: nobody does.
        results: what the jobs of an intake hand to one another; None: no other job follows.

    Raises:
        LeaseHeld: another process works on the lake.
        TableRefused: another engine made a table into what the job does not work on; nothing was written.
        ConcurrentChange: other commits kept overtaking the plan.
        JobError: anything else that kept the job from its work.
    """
    choose = partial(chosen_engine, engine, by_dagster=by_dagster)
    try:
        identity.read_identity(config.lake)  # refuses a layout that this version would damage
        with contextlib.nullcontext() if config.JOB in WITHOUT_LEASE else hold(config.lake, config.JOB):
            return retried(lambda: _run_once(config, choose, listener, results), PLAN_ATTEMPTS)
    except JobError:
        raise
    except OSError as error:
        # Faults of a source's files are findings of their log: this one is the lake's.
        raise JobError(
            f"The job {config.JOB} could not go on in the lake {config.lake}: {said(error)} What was written before "
            "is kept; remove the cause and run again."
        ) from error


def _run_once(
    config: JobConfig[Outline_co],
    choose: Callable[[int], tuple[JobEngine, str]],
    listener: JobListener | None,
    results: IntakeResults | None,
) -> JobReport[Outline_co]:
    _name_the_main_module()
    job = _job(config.JOB)
    made = plan(config)
    if made.is_empty:
        return JobReport.of(config, made.outline)
    report: JobReport[Outline_co]
    chosen, why = choose(made.task_bytes or 0)
    small = engines.IN_PROCESS_BYTES.get(config.JOB, -1)
    if made.task_bytes is None or (chosen is JobEngine.LOCAL and made.task_bytes <= small):
        report = job.apply(made, config, None)
        return report
    executor = start_executor(config.lake, chosen, config.JOB)
    why = f"{chosen}: {why}"
    given = executor
    if results is not None and config.JOB in HAND_OVER:
        given = IntakeExecutor(executor, results, workers_of(executor))
    with _told(config.JOB, why, executor, listener):
        report = job.apply(made, config, given)
    if results is not None and config.JOB == "publish":
        results.discard()
    return replace(report, engine=why)


@contextlib.contextmanager
def _told(job: str, engine: str, executor: Executor, listener: JobListener | None) -> Iterator[None]:
    """Let a listener follow a job."""
    if listener is None:
        yield
        return
    counted = counting(executor)
    if counted is not None:
        counted.on_progress = listener.progressed
    listener.job_starts(job, engine)
    try:
        yield
    finally:
        listener.job_ended()
        if counted is not None:
            counted.on_progress = None


def _name_the_main_module() -> None:
    """Give the main module of this process a spec if it has neither a spec nor a file.

    This is the case in Dagster's run workers, and under ``python -c``. pyspark.sql.connect takes such a process for a
    doctest and ends it.
    """
    main = sys.modules["__main__"]
    if not hasattr(main, "__file__") and getattr(main, "__spec__", None) is None:
        main.__spec__ = ModuleSpec("__main__", None)


def start_executor(lake: str, engine: str | None = None, job: str = "loglake") -> Executor:
    """What runs the tasks of a job: with the workers that this process has of the chosen engine."""
    if chosen_engine(engine)[0] is JobEngine.LOCAL:
        from spark_jobs.engine.local_executor import get_local_executor

        return get_local_executor()
    from spark_jobs.engine.session import get_session
    from spark_jobs.engine.spark_executor import SparkExecutor

    return SparkExecutor(get_session(lake), job)


def _job(name: str) -> Any:
    return importlib.import_module(f"spark_jobs.{name}.{name}_job")
