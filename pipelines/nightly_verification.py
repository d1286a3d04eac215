"""The weekly verification of each lake: a seventh of it every night, as the check ``lake_verified``.

It only reads, and takes no lease: runs of the lake continue meanwhile.
"""

from datetime import UTC, datetime
from typing import Any

import dagster as dg
from pydantic import Field

from logcore.cli.reading.arguments import clock_ms
from logcore.logs.model.findings import Severity, offsets_text
from logcore.logs.rules.advice import advice
from spark_jobs.contracts import JobReport, VerifyConfig
from spark_jobs.lake.view.harmed_places import place_of
from spark_jobs.lake.view.registered_lakes import RegisteredLake, lake_name
from spark_jobs.outlines import VerifiedPart

from .catalog.names import asset_key, name_in_lake, tags_of
from .catalog.run_configuration import parsed
from .errors.failures import failure_of
from .errors.interrupts import is_interrupt, lost_interrupts_repeated
from .errors.step_errors import without_text
from .events import check_result
from .resources import ENGINE_TAG, JobLauncher
from .run.check_definitions import LAKE_VERIFIED, CheckAnswer, Failure
from .run.run_request import AS_OF

VERIFICATION_JOB = "verification"
PARTS = 7
"""One part per night of a week."""


class VerificationConfig(dg.Config):
    """What a run of the verification looks at."""

    part: int = Field(default=0, ge=0, le=PARTS, description="Which seventh of the lake to verify; 0: today's")
    as_of: str = Field(default="", description=AS_OF)


def verification_config(lake: RegisteredLake, part: int) -> dict[str, Any]:
    """Build the configuration of a run that verifies this part."""
    op = f"{asset_key(lake, LAKE_VERIFIED.asset).to_python_identifier()}_{LAKE_VERIFIED.name}"
    return {"ops": {op: {"config": {"part": part}}}}


def build_verification(of: RegisteredLake) -> tuple[dg.AssetChecksDefinition, Any]:
    """The check of a lake and the job that runs it."""

    @dg.asset_check(
        asset=asset_key(of, LAKE_VERIFIED.asset), name=LAKE_VERIFIED.name, description=LAKE_VERIFIED.description
    )
    def lake_verified(
        context: dg.AssetCheckExecutionContext, config: VerificationConfig, loglake_launcher: JobLauncher
    ) -> dg.AssetCheckResult:
        """Verify one part of the lake."""
        record = context.instance.get_run_record_by_id(context.run.run_id)
        if record is None:
            raise dg.Failure(f"The run {context.run.run_id} is not known to its own instance.")
        try:
            created_ms = int(record.create_timestamp.timestamp() * 1000)
            as_of_ms = parsed(config.as_of, "as_of", clock_ms) if config.as_of else created_ms
            part = config.part or part_of(datetime.fromtimestamp(as_of_ms / 1000, UTC))
            with lost_interrupts_repeated(more_follows=True):
                report = loglake_launcher.run(VerifyConfig(of.path, context.run.run_id, as_of_ms, part, PARTS))
                if report.engine:
                    context.instance.add_run_tags(context.run.run_id, {ENGINE_TAG: report.engine})
        except Exception as error:  # noqa: BLE001 - it is raised again, without the text of unforeseen errors
            if is_interrupt(error):
                raise dg.DagsterExecutionInterruptedError from without_text(error)
            attempts = context.op_execution_context.retry_number
            failure = failure_of(error, LAKE_VERIFIED.name, context.run.run_id, of.path, attempts, context.log)
            raise failure from without_text(error)
        return check_result(of, answer(of.path, report))

    job = dg.define_asset_job(
        name_in_lake(of, VERIFICATION_JOB),
        selection=dg.AssetSelection.checks(lake_verified),
        description="Verifies a part of the lake from its own bytes. Without configuration the part of today.",
        executor_def=dg.in_process_executor,
        run_tags=tags_of(of),
    )
    return lake_verified, job


def part_of(moment: datetime) -> int:
    """The part of the day: 1 on Mondays."""
    return moment.weekday() + 1


def answer(lake: str, report: JobReport[VerifiedPart]) -> CheckAnswer:
    """Build the check's answer. Findings of severity info do not fail it."""
    failures = [
        Failure(
            f"{placed.finding.rule}: {placed.finding.message}",
            placed.log,
            None if placed.topic_partition is None else f"{placed.topic_partition} of lake {lake_name(lake)}",
            offsets_text(placed.finding.start_offset, placed.finding.end_offset),
            placed.finding.severity,
            what_to_do=advice(placed.finding.rule, place_of(lake, placed)),
        )
        for placed in report.findings
        if placed.finding.severity is not Severity.INFO
    ]
    part = f"part {report.plan.part} of {report.plan.parts} of lake {lake_name(lake)}"
    figures = {name.replace("_", " "): value for name, value in report.metrics.items()}
    return LAKE_VERIFIED.answer(
        lake, failures, f"{part}: {report.metrics['things']} things verified", {**figures, "part": part}
    )
