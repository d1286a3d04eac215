"""Looks whether a run has anything to do, and what its checks say now, without Dagster and without changing the lake.

The same steps as in a run plan their jobs. The first job with work ends the look.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from logcore.errors import LogError
from spark_jobs import launch
from spark_jobs.contracts import DecodeConfig, JobConfig, JobReport, LatestConfig
from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake.view.alarms import damage_of, stops_of
from spark_jobs.lake.view.cluster_tables import newest_reading
from spark_jobs.lake.view.decoded.latest_topics import LatestTopic
from spark_jobs.lake.view.decoded.topics import DecodedTopic
from spark_jobs.lake.view.expectation_results import RecordsVersion, read_results
from spark_jobs.lake.view.harm import look_at_tables
from spark_jobs.lake.view.lake_state import LakeState, read_state
from spark_jobs.lake.view.ledger_comparison import compare_with_ledger
from spark_jobs.launch import IntakeResults
from spark_jobs.outlines import Outline_co
from spark_jobs.policies.policies_file import Policies

from . import checks, topic_checks
from .chains import INTAKE
from .check_definitions import CheckAnswer
from .direct import FinishedSteps, outcome_of
from .outcome import RunOutcome
from .run_request import RunRequest
from .steps import Run, WorkFound, restricted


@dataclass(frozen=True, slots=True)
class PlansOnly:
    """A launcher that plans jobs and starts none."""

    def run(
        self, config: JobConfig[Outline_co], engine: str = "auto", results: IntakeResults | None = None
    ) -> JobReport[Outline_co]:
        """Report that the job has nothing to do.

        Raises:
            WorkFound: It has something to do.
        """
        report = launch.report_if_empty(config)
        if report is None:
            raise WorkFound
        return report


def outcome_without_work(lake: str, request: RunRequest, policies: Policies, as_of_ms: int) -> RunOutcome | None:
    """What a run would report if it has nothing to do.

    Args:
        lake: Absolute path or address of the lake.
        request: The options of the run.
        policies: Of the run.
        as_of_ms: The clock of the run.

    Returns:
        The outcome; None if the run has work, or if an error occurs: the run itself reports that.
    """
    run = Run("", lake, as_of_ms, request, policies, PlansOnly(), acts=False)
    finished = FinishedSteps(reports=run.reports)
    try:
        with launch.pinned_snapshots(lake):
            for step in INTAKE:
                finished.results[step.name] = step.work(run)
    except (WorkFound, JobError, UsageError, LogError, OSError):
        return None
    return outcome_of(INTAKE, "", finished)


def present_answers(lake: str, policies: Policies, as_of_ms: int) -> Iterator[CheckAnswer]:
    """Yield the answers to the checks of a lake by its tables as they are now. No source is read.

    Expectations count as long as their results are about the present rows; the next run evaluates the others.

    Args:
        lake: Absolute path or address of the lake.
        policies: Of the lake.
        as_of_ms: The clock, epoch milliseconds.

    Raises:
        JobError: A table cannot be read, or no job works on it.
    """
    launch.refuse_tables(lake)
    state, seen = read_state(lake), look_at_tables(lake)
    # What a lost table makes wrong is right again when the table is there: it is no harm of its own.
    has_ledger, has_records = "offset_ledger" not in seen.lost, "records" not in seen.lost
    yield checks.sources_agree(state, stops_of(state), ())
    yield checks.no_damage(state, damage_of(state))
    if has_ledger:
        yield checks.every_offset_accounted_for(state)
    yield checks.nothing_remote(state)
    if has_ledger and has_records:
        yield checks.rows_equal_ledger(state, compare_with_ledger(lake))
    yield checks.no_hanging_transaction(state, as_of_ms)
    yield checks.tables_unharmed(state, seen.harm(), ())
    if decoded := DecodedTopic.all_of(lake, policies):
        if has_records:
            of_decode = launch.report_if_empty(DecodeConfig(lake, "", as_of_ms, policies))
            yield topic_checks.decoded_rows_equal_records(state, decoded, of_decode)
        yield from _of_newest_rows(state, decoded)
    if has_records and (latest := LatestTopic.all_of(lake, policies)):
        of_latest = launch.report_if_empty(LatestConfig(lake, "", as_of_ms, policies))
        yield topic_checks.latest_follows_records(state, latest, of_latest)
    reading = newest_reading(lake, policies)
    if reading is not None:  # the next run reads the sources
        yield topic_checks.cluster_follows_sources(state, reading)
        yield topic_checks.no_commit_beyond_log_end(state, reading)
    results = read_results(lake, RecordsVersion.now(lake))
    yield checks.expectations_met(restricted(state, tuple(results)), results, None)


def answers_after_expiry(lake: str, policies: Policies) -> Iterator[CheckAnswer]:
    """Yield the answers that rows which expire may change, by the rows that are left.

    Args:
        lake: Absolute path or address of the lake.
        policies: Of the lake.

    Raises:
        JobError: A table cannot be read.
    """
    if decoded := DecodedTopic.all_of(lake, policies):
        yield from _of_newest_rows(read_state(lake), decoded)


def _of_newest_rows(state: LakeState, decoded: Sequence[DecodedTopic]) -> Iterator[CheckAnswer]:
    yield topic_checks.undecoded_share_steady(state, decoded)
    yield topic_checks.schemas_of_own_subject(state, decoded)
