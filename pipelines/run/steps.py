"""The steps of a run: each runs its job, whatever the previous step found, and returns the results to show.

A step never decides by itself that there is nothing to do: a run that was killed may have left work to the next one.
Each step returns what its job changed; :mod:`pipelines.assets` makes Dagster's events of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from logcore.logs.model.log_selection import LogSelection
from logcore.reading.read_options import OffsetRange
from spark_jobs import launch
from spark_jobs.contracts import (
    CheckForeignRowsConfig,
    ClusterConfig,
    ExpectationsConfig,
    IngestConfig,
    Intake,
    JobConfig,
    JobReport,
    PublishConfig,
    ReplaceConfig,
    ValidateConfig,
)
from spark_jobs.errors import UsageError
from spark_jobs.lake.view.alarms import damage_of, stops_of
from spark_jobs.lake.view.decoded.latest_topics import LatestTopic
from spark_jobs.lake.view.decoded.topics import DecodedTopic
from spark_jobs.lake.view.expectation_results import due_expectations, keep_evaluated, page_of
from spark_jobs.lake.view.harm import look_at_tables, remember_tables
from spark_jobs.lake.view.lake_state import LakeState, accept_hanging, has_uncommitted, read_state
from spark_jobs.lake.view.ledger_comparison import compare_with_ledger
from spark_jobs.lake.view.open_findings import path_findings
from spark_jobs.lake.view.registered_lakes import held_logs, remote_of
from spark_jobs.launch import IntakeResults
from spark_jobs.outlines import Outline, Outline_co
from spark_jobs.policies.policies_file import Policies

from ..metadata.values import JsonValue, Observation, PathValue
from . import checks
from .check_definitions import RECORDS
from .outcome import REFUSED, StepResult
from .run_request import RunRequest
from .run_row_writer import RunRowWriter

READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"

Announce = Callable[[JobConfig[Outline]], None]


class Launcher(Protocol):
    """Starts one job of :mod:`spark_jobs` and waits for its report."""

    def run(
        self, config: JobConfig[Outline_co], engine: str = "auto", results: IntakeResults | None = None
    ) -> JobReport[Outline_co]:
        """Run the job of this configuration, with what earlier jobs handed on. An empty plan starts nothing."""


class WorkFound(Exception):
    """A run that must not act found work to do."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run from the view of a step."""

    run_id: str
    lake: str
    as_of_ms: int
    """The run's clock: the same in all its steps."""
    request: RunRequest
    policies: Policies
    """Read once: all steps of the run follow the same."""
    launcher: Launcher
    backfilled: tuple[str, ...] | None = None
    """Topic partitions that a user chose in Dagster. Then existing data is checked again, not only new data."""
    acts: bool = True
    """Whether the run may change the lake. A run that does not act ends with :class:`WorkFound` where it would."""
    is_one_round: bool = False
    """Whether the run ends after its first round, because another run follows at once."""
    follows_cluster: bool = True
    """Whether the step ``cluster`` belongs to the run."""
    publishes: bool = True
    """Whether the steps after ``ingest`` belong to the run. Otherwise its rounds only archive."""
    recorder: RunRowWriter | None = None
    """Writes the row of the run; None: the run has none."""
    announce: Announce | None = None
    """Gets each job before it is started."""
    results: IntakeResults | None = None
    """What its jobs hand to one another; None: nothing."""
    reports: list[JobReport[Outline]] = field(default_factory=list)
    """Of all jobs of the run so far, also of those that the rounds of `ingest` started."""

    def needs_to_act(self) -> None:
        """Call this before the run changes something by itself, not through a job.

        Raises:
            WorkFound: The run must not act.
        """
        if not self.acts:
            raise WorkFound

    @property
    def is_backfill(self) -> bool:
        """Whether a user chose topic partitions in Dagster."""
        return self.backfilled is not None

    @property
    def keys(self) -> tuple[str, ...] | None:
        """Topic partitions of the run; None: all."""
        return self.backfilled or self.request.logs or None

    @property
    def intakes(self) -> tuple[Intake, ...]:
        """The sources to ingest."""
        return self.request.intakes(self.lake)

    @property
    def at_once(self) -> bool:
        """Whether small amounts are processed too, because a user requested these logs or everything."""
        return self.request.at_once or self.is_backfill

    def logs(self) -> tuple[str, ...] | None:
        """Log keys of this run; None: all of the lake."""
        selection = LogSelection.of(self.request.topics, self.request.partitions)
        if self.keys is None and selection.is_everything:
            return None
        return tuple(
            log
            for log, row in sorted(held_logs(self.lake).items())
            if (self.keys is None or str(row) in self.keys) and selection.matches(row.topic, row.partition)
        )

    def state(self) -> LakeState:
        """The whole lake as it is now."""
        return read_state(self.lake)

    def start(self, config: JobConfig[Outline_co]) -> JobReport[Outline_co]:
        """Run a job to its end, by the engine that earlier jobs of the run had."""
        engine = self.ran_by or self.request.engine
        if self.announce is not None:
            self.announce(config)
        if self.recorder is None:
            report = self.launcher.run(config, engine, self.results)
        else:
            with self.recorder.timed(config.JOB) as take:
                report = self.launcher.run(config, engine, self.results)
                take(report)
        self.reports.append(report)
        return report

    @property
    def ran_by(self) -> str | None:
        """The engine of the run, and why: its first job with tasks for workers decides. None: no job had some yet."""
        return next((report.engine for report in self.reports if report.engine), None)

    def reports_of(self, job: str) -> list[JobReport[Outline]]:
        """Reports of a job in earlier rounds of the run."""
        return [report for report in self.reports if report.job == job]

    def step_done(self, done: StepResult, *, is_last: bool) -> None:
        """Record what a step found. With the last step, the row of the run is written.

        Raises:
            JobError: The row cannot be written.
        """
        if self.recorder is not None:
            is_read = any(report.job == IngestConfig.JOB for report in done.reports)
            self.recorder.step_done(done, [path for each in self.intakes for path in each.sources] if is_read else ())
            if is_last:
                self.recorder.succeeded()


Work = Callable[[Run], StepResult]


def ingest(run: Run) -> StepResult:
    """Archive what is new at the end of each log. A large load is validated and published round by round.

    If policies take settings from the cluster, what it says is read too, before the next round and the next steps. It
    is read once from all sources, so that of several copies the one that reaches furthest counts.

    Validation says which offsets are lost. Then the same run searches the copies that are named to fill them.

    Raises:
        UsageError: Remote storage is to be forgotten, and cannot be, or is named too.
    """
    if run.request.forget_remote:
        _forget_remote(run)
    done = StepResult()
    for number, intake in enumerate(run.intakes):
        config = IngestConfig.of(
            intake,
            lake=run.lake,
            run_id=run.run_id,
            as_of_ms=run.as_of_ms,
            logs=run.keys or (),
            policies=run.policies,
            at_once=run.at_once,
            move_source=run.request.move_source,
            max_bytes=run.request.max_bytes_per_round or None,
            max_tasks=run.request.max_tasks_per_round or None,
        )
        is_filling = run.publishes and bool(intake.fill_from)
        known = _damaged_places(run) if is_filling else set()
        done.reports.append(run.start(config))
        of_cluster = []
        if number == 0 and run.policies.are_from_cluster:
            of_all = ClusterConfig.of(run.lake, run.run_id, run.as_of_ms, run.intakes, only_metadata=True)
            of_cluster = [run.start(of_all)]
        done.reports += _next_rounds(run, config, done.reports[-1].left)
        if is_filling:
            _validate_new(run)
            if not _damaged_places(run) <= known:
                done.reports.append(run.start(config))
                done.reports += _next_rounds(run, config, done.reports[-1].left)
        done.reports += of_cluster
    done.state = state = run.state()
    done.answers.append(checks.sources_agree(state, stops_of(state), path_findings(done.reports)))
    return done


def _next_rounds(run: Run, config: IngestConfig, left: tuple[str, ...]) -> Iterator[JobReport[Outline]]:
    """Archive what a round left, after validating and publishing what it took."""
    while left and not run.is_one_round:
        if run.publishes:
            _validate_new(run)
            _publish_new(run)
        report = run.start(replace(config, logs=left))
        left = report.left
        yield report


def _damaged_places(run: Run) -> set[str]:
    return {alarm.where for alarm in damage_of(run.state())}


def _forget_remote(run: Run) -> None:
    if run.request.remote:
        raise UsageError("forget_remote forgets remote storage, and remote names some: set one of them.")
    for intake in run.intakes:
        if intake.remote or remote_of(run.lake, intake.sources):
            run.needs_to_act()
            launch.forget_remote(run.lake, intake)


def validate(run: Run) -> StepResult:
    """Validate every byte that was not validated before."""
    done = StepResult(run.reports_of(ValidateConfig.JOB))
    done.reports += _validate_new(run)
    done.state = state = run.state()
    done.answers.append(checks.no_damage(state, damage_of(state)))
    done.answers.append(checks.every_offset_accounted_for(state))
    done.answers.append(checks.nothing_remote(state))
    return done


def _validate_new(run: Run) -> list[JobReport[Outline]]:
    logs = run.logs()
    if logs == ():
        return []
    return [run.start(ValidateConfig(run.lake, run.run_id, run.as_of_ms, logs, run.policies))]


def publish(run: Run) -> StepResult:
    """Add decided records to the table, exactly once."""
    done = StepResult(run.reports_of(PublishConfig.JOB))
    done.reports += _publish_new(run)
    logs = run.logs()
    withdrawn: list[str] = []
    if logs is None or logs:
        _replace(run, logs, done, withdrawn)
        if any(report.job == ReplaceConfig.JOB and report.changed for report in done.reports):
            done.reports += _publish_new(run, is_after_replace=True)
    counts = compare_with_ledger(run.lake)
    if counts.differences:
        run.needs_to_act()
    counts.record(run.run_id, run.as_of_ms)
    done.state = state = run.state()
    done.answers.append(checks.rows_equal_ledger(state, counts, withdrawn))
    done.answers.append(checks.no_hanging_transaction(state, run.as_of_ms))
    return done


def _publish_new(run: Run, *, is_after_replace: bool = False) -> list[JobReport[Outline]]:
    """Publish what is decided. After a replacement, only `records_uncommitted` can be out of date."""
    logs = run.logs()
    if logs == ():
        return []
    return [
        run.start(
            PublishConfig(
                run.lake,
                run.run_id,
                run.as_of_ms,
                logs,
                topics,
                include_internal,
                run.policies,
                run.at_once,
                isolation_level,
            )
        )
        for topics, include_internal, isolation_level in _ways_to_publish(run)
        if not is_after_replace or isolation_level != READ_COMMITTED
    ]


def publish_waiting(run: Run) -> None:
    """Publish from the archive alone, with what waits for the end of a transaction, if the run requests it.

    So its user accepts the transactions that hang now, and only these.
    """
    request = run.request
    if request.sources or request.isolation_level != READ_UNCOMMITTED or (logs := run.logs()) == ():
        return
    which = logs, request.topics, request.include_internal, run.policies, True, READ_UNCOMMITTED
    run.start(PublishConfig(run.lake, run.run_id, run.as_of_ms, *which))
    accept_hanging(restricted(run.state(), logs), run.run_id, run.as_of_ms)


def _replace(run: Run, logs: tuple[str, ...] | None, done: StepResult, withdrawn: list[str]) -> None:
    """Publish again what a user requested, and what was filled late. Adds which offsets stay withdrawn."""
    offsets = run.request.replace
    if offsets is not None:
        since, until = run.request.replace_since_ms, run.request.replace_until_ms
        start = offsets.start
        if offsets == OffsetRange() and since is None and until is None:
            start = 0  # a request without any bound would mean only what came late
        config = ReplaceConfig(
            run.lake,
            run.run_id,
            run.as_of_ms,
            logs,
            start,
            offsets.end,
            since,
            until,
            policies=run.policies,
            include_withdrawn=run.request.replace_withdrawn,
        )
        report = run.start(config)
        done.reports.append(report)
        withdrawn += report.plan.withdrawn
        refused = list(report.plan.refused)
        said = (placed.finding for placed in report.findings if placed.finding.rule == REFUSED)
        refused += [each.message for each in said if each.message not in refused]
        done.refused += refused
        if refused:
            done.observations.append(
                Observation(
                    RECORDS,
                    {"lake": PathValue(run.lake), "refused": JsonValue(refused)},
                    "A part of the request to publish again was refused; its rows stay as they are.",
                )
            )
    if run.state().came_late:
        done.reports.append(run.start(ReplaceConfig(run.lake, run.run_id, run.as_of_ms, logs, policies=run.policies)))


def check_tables(run: Run) -> StepResult:
    """Check what other programs did to tables and archive since the last run."""
    done = StepResult()
    # Before the job, which records the state of the tables.
    seen = look_at_tables(run.lake, () if run.logs() == () else _followed(run))
    if seen.is_news:
        run.needs_to_act()
    if seen.needs_check:
        done.reports.append(run.start(CheckForeignRowsConfig(run.lake, run.run_id, run.as_of_ms)))
    seen.record(run.run_id, run.as_of_ms)
    harm = seen.harm()
    done.state = state = run.state()
    done.answers.append(checks.tables_unharmed(state, harm, seen.notes))
    return done


def _followed(run: Run) -> list[str]:
    """Tables of topics that later steps make again if they are lost. Rows that do not decode are in no other table."""
    assets = (*DecodedTopic.all_of(run.lake, run.policies), *LatestTopic.all_of(run.lake, run.policies))
    return [asset.table.name for asset in assets]


def expect(run: Run) -> StepResult:
    """Evaluate expectations on published ranges without a valid result."""
    done = StepResult()
    state = run.state()
    published = {log.log: log.published_to for log in state.logs if log.published_to}
    again = [log.log for log in state.logs if run.is_backfill and log.topic_partition in (run.keys or ())]
    due = due_expectations(run.lake, published, again)
    report = None
    if due.ranges:
        which = due.ranges, run.policies, run.is_backfill or bool(due.failed_on_rows)
        report = run.start(ExpectationsConfig(run.lake, run.run_id, run.as_of_ms, *which))
        done.reports.append(report)
    results = keep_evaluated(run.lake, due, report)
    done.state = state = run.state()  # a finding about expectations is open by these results
    done.answers.append(checks.expectations_met(state, results, page_of(run.lake, report)))
    try:
        run.step_done(done, is_last=True)
    finally:
        if state.logs:  # the last step: the next run compares with this state
            remember_tables(run.lake, run.run_id, run.as_of_ms)
    return done


def restricted(state: LakeState, logs: Sequence[str] | None) -> LakeState:
    """Return the state of a lake with these logs only; None: all."""
    if logs is None:
        return state
    return LakeState(state.lake, tuple(log for log in state.logs if log.log in logs))


def _ways_to_publish(run: Run) -> Iterator[tuple[tuple[str, ...], bool, str | None]]:
    """Topic filter, internal topics and isolation level of each intake, without duplicates. Without intakes: all user
    topics. An intake without a level brings only rows up to date that a run of maintenance wrote.
    """
    unsaid = None if has_uncommitted(run.lake) else READ_COMMITTED
    ways = dict.fromkeys((i.topics, i.include_internal, i.isolation_level or unsaid) for i in run.intakes)
    yield from ways or [((), False, unsaid)]
