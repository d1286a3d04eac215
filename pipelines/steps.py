"""What each step of a run does: ask its job, whatever the step before found, and say what there is to see.

A step never decides by itself that there is nothing to do: a run that was killed may have left work to the next one.
Each step returns what its job changed; :mod:`pipelines.assets` makes events of it.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import dagster as dg

from logcore.cli.reading.arguments import OffsetRange
from logcore.logs.model.findings import Finding, found
from pipelines import checks
from pipelines.questions import RECORDS
from pipelines.resources import JobLauncher, LakeResource
from pipelines.view import expectations, harm, partitions
from pipelines.view.standing import DIFFERS, told
from pipelines.view.state import LakeState, read_alarms, read_state, read_stops
from spark_jobs.contracts import (
    CompactionConfig,
    ExpectationsConfig,
    IngestConfig,
    JobConfig,
    JobReport,
    LogChange,
    MaintainConfig,
    OptimizeConfig,
    ProveConfig,
    PublishConfig,
    RebuildIndexesConfig,
    ReplaceConfig,
    RetentionConfig,
    ValidateConfig,
)
from spark_jobs.lake.delta import table_state
from spark_jobs.lake.ledger.finding_rows import PlacedFinding, from_plain, record
from spark_jobs.lake.published.checked import pending_ranges
from spark_jobs.lake.published.completeness import Difference, differences
from spark_jobs.lake.segments.archive import read_logs
from spark_jobs.lake.setup.registry import Intake

READ_COMMITTED = "read_committed"
REFUSED = "replacement-refused"
"""Rule of a finding on what was to be published again and could not be."""


@dataclass(frozen=True, slots=True)
class Run:
    """One Dagster run, seen from a step."""

    run_id: str
    lake: str
    as_of_ms: int
    """The run's clock: the same in all its steps."""
    keys: tuple[str, ...] | None
    """Topic partitions that the run is about; None: all."""
    is_backfill: bool
    """Whether a person chose these partitions in Dagster: then what is there is checked again, not only what is new."""
    settings: LakeResource
    launcher: JobLauncher
    instance: dg.DagsterInstance

    @property
    def intakes(self) -> tuple[Intake, ...]:
        """What is taken in."""
        return self.settings.intakes(self.lake)

    @property
    def at_once(self) -> bool:
        """Whether nothing waits for more: a person asked for these logs, or for all there is."""
        return self.settings.at_once or self.is_backfill

    def logs(self) -> tuple[str, ...] | None:
        """Log keys that this run is about; None: all of the lake."""
        settings = self.settings
        if self.keys is None and not (settings.topics or settings.partitions):
            return None
        return tuple(
            log
            for log, row in sorted(read_logs(self.lake).items())
            if (self.keys is None or row.topic_partition in self.keys)
            and (not settings.topics or any(fnmatch.fnmatchcase(row.topic, glob) for glob in settings.topics))
            and (not settings.partitions or row.partition in settings.partitions)
        )

    def state(self) -> LakeState:
        """The whole lake as it stands now."""
        return read_state(self.lake)


@dataclass(slots=True)
class StepResult:
    """What a step did."""

    reports: list[JobReport] = field(default_factory=list)
    results: list[dg.AssetCheckResult] = field(default_factory=list)
    observations: list[dg.AssetObservation] = field(default_factory=list)
    """What a person should see although nothing changed."""

    @property
    def changes(self) -> dict[str, LogChange]:
        """The last change of each log, by log key."""
        return {change.log: change for report in self.reports for change in report.changed}


Work = Callable[[Run], StepResult]


def ingest(run: Run) -> StepResult:
    """Take in what is new at the end of each log."""
    done = StepResult()
    for intake in run.intakes:
        config = IngestConfig(
            lake=run.lake,
            sources=intake.paths,
            run_id=run.run_id,
            as_of_ms=run.as_of_ms,
            mode=intake.mode,
            topics=intake.topics,
            partitions=intake.partitions,
            logs=run.keys or (),
            high_watermark=intake.high_watermark,
            cluster=intake.cluster,
            policies=run.settings.policy_file(run.lake),
            at_once=run.at_once,
            fill_from=intake.fill_from,
            move_source=run.settings.move_source,
        )
        done.reports.append(run.launcher.run(config))
    state = run.state()
    partitions.register(run.instance, (log.topic_partition for log in state.logs))
    done.results.append(checks.sources_agree(state, read_stops(run.lake), path_findings(done.reports)))
    return done


def path_findings(reports: Iterable[JobReport]) -> tuple[Finding, ...]:
    """What ``ingest`` said of the source paths as it saw them, each once; of other jobs' reports nothing."""
    said = [from_plain(finding) for report in reports for finding in report.plan.get("of_paths", ())]
    return tuple(dict.fromkeys(said))


def validate(run: Run) -> StepResult:
    """Judge every byte that was not judged before."""
    done = StepResult()
    logs = run.logs()
    if logs is None or logs:
        config = ValidateConfig(run.lake, run.run_id, run.as_of_ms, logs, run.settings.policy_file(run.lake))
        done.reports.append(run.launcher.run(config))
    state = run.state()
    done.results.append(checks.no_damage(state, read_alarms(run.lake)))
    done.results.append(checks.every_offset_accounted_for(_restricted(state, logs)))
    done.results.append(checks.nothing_remote(state))
    return done


def publish(run: Run) -> StepResult:
    """Add decided records to the table, exactly once."""
    done = StepResult()
    logs = run.logs()
    if logs is None or logs:
        policies = run.settings.policy_file(run.lake)
        for topics, include_internal, isolation_level in _ways_to_publish(run.intakes):
            config = PublishConfig(
                run.lake,
                run.run_id,
                run.as_of_ms,
                logs,
                topics,
                include_internal,
                policies,
                run.at_once,
                isolation_level,
            )
            done.reports.append(run.launcher.run(config))
        _replace(run, logs, policies, done)
    differing = differences(run.lake)
    record(run.lake, _placed(differing), run.run_id, run.as_of_ms)
    state = run.state()
    done.results.append(checks.rows_equal_ledger(state, differing))
    done.results.append(checks.no_hanging_transaction(state, run.as_of_ms))
    return done


def _placed(differing: Iterable[Difference]) -> Iterator[PlacedFinding]:
    """What the table ``findings`` keeps of differences between table and ledger."""
    for each in differing:
        if each.log:
            finding = found(DIFFERS, told(each), start_offset=each.start_offset, end_offset=each.end_offset)
            yield PlacedFinding(finding, each.log, each.topic, each.partition)


def _replace(run: Run, logs: tuple[str, ...] | None, policies: str | None, done: StepResult) -> None:
    """Publish again what a person asked for, and what came late."""
    asked = run.settings.replacement()
    if asked is not None:
        since, until = run.settings.replace_since_ms, run.settings.replace_until_ms
        start = asked.start
        if asked == OffsetRange() and since is None and until is None:
            start = 0  # a request without any bound would mean only what came late
        config = ReplaceConfig(
            run.lake,
            run.run_id,
            run.as_of_ms,
            logs,
            start,
            asked.end,
            since,
            until,
            policies=policies,
            include_withdrawn=run.settings.replace_withdrawn,
        )
        report = run.launcher.run(config)
        done.reports.append(report)
        refused = list(report.plan.get("refused", ()))
        refused += [f["message"] for f in report.findings if f["rule"] == REFUSED and f["message"] not in refused]
        if refused:
            done.observations.append(
                dg.AssetObservation(
                    RECORDS,
                    description="Part of what was to be published again was refused; its rows stay as they are.",
                    metadata={"lake": dg.MetadataValue.path(run.lake), "refused": dg.MetadataValue.json(refused)},
                )
            )
    if run.state().came_late:
        done.reports.append(
            run.launcher.run(ReplaceConfig(run.lake, run.run_id, run.as_of_ms, logs, policies=policies))
        )


def prove(run: Run) -> StepResult:
    """Look at what other programs did to tables and archive since the last run."""
    done = StepResult()
    findings = table_state.cheap_check(run.lake)  # before the job, which records how the tables are now
    if table_state.unproven_files(run.lake, RECORDS):
        done.reports.append(run.launcher.run(ProveConfig(run.lake, run.run_id, run.as_of_ms)))
    if harmed := list(harm.placed(findings)):
        record(run.lake, harmed, run.run_id, run.as_of_ms)
    failures = harm.failures(run.lake, findings)
    done.results.append(checks.tables_unharmed(run.state(), failures, harm.notes(findings)))
    return done


def expect(run: Run) -> StepResult:
    """Evaluate expectations on what was published and has no answer that still counts."""
    done = StepResult()
    state = run.state()
    stand = expectations.Stand.now(run.lake)
    kept = expectations.read_results(run.lake, stand)
    ranges = pending_ranges(run.lake)
    for log in state.logs:
        # Chosen by a person: evaluated again from the beginning. And so is a log without an answer (a run can die
        # between the answer and its being kept, another engine may have changed rows, and after a failure rows may have
        # been replaced).
        chosen = run.is_backfill and log.topic_partition in (run.keys or ())
        if log.published_to and (chosen or log.log not in kept):
            ranges[log.log] = (0, log.published_to)
    report = None
    if ranges:
        report = run.launcher.run(ExpectationsConfig(run.lake, run.run_id, run.as_of_ms, ranges))
        kept |= expectations.results_of(report, ranges)
        done.reports.append(report)
    if stand is not None:
        expectations.keep_results(run.lake, kept, stand)
    done.results.append(checks.expectations_met(state, kept, expectations.page_of(run.lake, report)))
    if state.logs:  # the last step: what the next run compares with
        table_state.record_state(run.lake, run.run_id, run.as_of_ms)
    return done


def retain(run: Run) -> StepResult:
    """Retire segments by ``retention.ms`` and ``retention.bytes``, where a policy says so."""
    policies = run.settings.policy_file(run.lake)
    return _planned_or_done(
        run,
        "retained_log",
        lambda logs: RetentionConfig(run.lake, run.run_id, run.as_of_ms, policies, logs, run.settings.apply),
    )


def compact(run: Run) -> StepResult:
    """Clean logs by key, where a policy says so."""
    policies = run.settings.policy_file(run.lake)
    return _planned_or_done(
        run,
        "compacted_log",
        lambda logs: CompactionConfig(run.lake, run.run_id, run.as_of_ms, policies, logs, run.settings.apply),
    )


def _planned_or_done(run: Run, asset: str, config: Callable[[tuple[str, ...] | None], JobConfig]) -> StepResult:
    """Run a job of maintenance; without leave to act there is only a plan, and a person should see it."""
    logs = run.logs()
    if logs == ():
        return StepResult()
    report = run.launcher.run(config(logs))
    if run.settings.apply:
        return StepResult([report])
    plan = dg.AssetObservation(
        asset,
        description="A plan only: nothing was changed. Run with apply to carry it out.",
        metadata={"lake": dg.MetadataValue.path(run.lake), "plan": dg.MetadataValue.json(dict(report.plan))},
    )
    return StepResult(observations=[plan])


def maintain(run: Run) -> StepResult:
    """Delete files of the archive that nobody needs, and join small slices."""
    policies = run.settings.policy_file(run.lake)
    done = _planned_or_done(
        run,
        "tidy_archive",
        lambda logs: MaintainConfig(run.lake, run.run_id, run.as_of_ms, policies, run.settings.apply),
    )
    did = {name: count for report in done.reports for name, count in report.metrics.items() if count}
    if did:  # also what was of no log
        figures = {"lake": dg.MetadataValue.path(run.lake), "did": dg.MetadataValue.json(did)}
        done.observations.append(dg.AssetObservation("tidy_archive", metadata=figures))
    return done


def rebuild_indexes(run: Run) -> StepResult:
    """Write the side files of live segments that lack them."""
    policies = run.settings.policy_file(run.lake)
    return _planned_or_done(
        run,
        "rebuilt_indexes",
        lambda logs: RebuildIndexesConfig(run.lake, run.run_id, run.as_of_ms, logs, policies, run.settings.apply),
    )


def optimize(run: Run) -> StepResult:
    """Merge small files of the tables in their order, and remove files that nobody can need."""
    return _planned_or_done(
        run,
        "optimized_tables",
        lambda logs: OptimizeConfig(run.lake, run.run_id, run.as_of_ms, run.settings.apply),
    )


def _restricted(state: LakeState, logs: Sequence[str] | None) -> LakeState:
    if logs is None:
        return state
    return LakeState(state.lake, tuple(log for log in state.logs if log.log in logs))


def _ways_to_publish(intakes: Iterable[Intake]) -> Iterator[tuple[tuple[str, ...], bool, str]]:
    """Topic filter, internal topics and isolation level of each intake, each once; with nothing remembered: all user
    topics."""
    ways = dict.fromkeys((i.topics, i.include_internal, i.isolation_level or READ_COMMITTED) for i in intakes)
    yield from ways or [((), False, READ_COMMITTED)]
