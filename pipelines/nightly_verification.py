"""The weekly verification of each lake: a seventh of it every night, as the check ``lake_verified``.

It only reads, and takes no lease: runs of the lake continue meanwhile.
"""

from datetime import UTC, datetime
from typing import Any

import dagster as dg

from logcore.logs.model.findings import Severity
from pipelines.catalog.names import asset_key, name_in_lake, tags_of
from pipelines.events import check_result
from pipelines.failures import failure_of, without_text
from pipelines.resources import JobLauncher, LakeResource
from pipelines.run.check_definitions import LAKE_VERIFIED, CheckAnswer, Failure
from spark_jobs.contracts import JobReport, VerifyConfig
from spark_jobs.lake.view.registered_lakes import RegisteredLake, lake_name

VERIFICATION_JOB = "verification"
PARTS = 7
"""One part per night of a week."""


def build_verification(of: RegisteredLake) -> tuple[dg.AssetChecksDefinition, Any]:
    """The check of a lake and the job that runs it."""

    @dg.asset_check(
        asset=asset_key(of, LAKE_VERIFIED.asset), name=LAKE_VERIFIED.name, description=LAKE_VERIFIED.description
    )
    def lake_verified(
        context: dg.AssetCheckExecutionContext, lake: LakeResource, launcher: JobLauncher
    ) -> dg.AssetCheckResult:
        """Verify one part of the lake."""
        record = context.instance.get_run_record_by_id(context.run.run_id)
        as_of_ms = (
            lake.as_of_ms if record is None or lake.as_of_ms >= 0 else int(record.create_timestamp.timestamp() * 1000)
        )
        part = lake.verified_part or part_of(datetime.fromtimestamp(as_of_ms / 1000, UTC))
        try:
            report = launcher.run(VerifyConfig(of.path, context.run.run_id, as_of_ms, part, PARTS))
        except Exception as error:  # noqa: BLE001 - it is raised again, without the text of unforeseen errors
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


def answer(lake: str, report: JobReport) -> CheckAnswer:
    """Build the check's answer. Findings of severity info do not fail it."""
    failures = [
        Failure(
            f"{found['rule']}: {found['message']}",
            _text(found["log"]),
            None if found["topic"] is None else f"{found['topic']}-{found['partition']} of lake {lake_name(lake)}",
            _offsets(found["start_offset"], found["end_offset"]),
            Severity(str(found["severity"])),
        )
        for found in report.findings
        if found["severity"] != Severity.INFO
    ]
    part = f"part {report.plan['part']} of {report.plan['parts']} of lake {lake_name(lake)}"
    figures = {name.replace("_", " "): value for name, value in report.metrics.items()}
    return LAKE_VERIFIED.answer(
        lake, failures, f"{part}: {report.metrics['things']} things verified", {**figures, "part": part}
    )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _offsets(start: Any, end: Any) -> str:
    if start is None:
        return ""
    return str(start) if end is None else f"{start}..{end}"
