"""``verify``: verifies one part of a lake from its own bytes, like ``loglake verify LAKE --sample n/t``.

A schedule uses it to verify a lake part by part. It only reads, and takes no lease: a verification may last for hours,
and runs continue meanwhile. Files and logs are the tasks; a small part is verified in the process of the job. Its
findings are only in its report. They are true at this moment; the next verification of the same part checks again.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from spark_jobs.contracts import JobReport, VerifyConfig
from spark_jobs.engine.executor import Executor
from spark_jobs.errors import UsageError
from spark_jobs.lake_verification.whole_lake import Sample, sample_bytes, verify_whole_lake
from spark_jobs.outlines import VerifiedPart
from spark_jobs.placed_finding import PlacedFinding


@dataclass(frozen=True, slots=True)
class VerifyPlan:
    """The part to verify."""

    outline: VerifiedPart
    task_bytes: int | None
    is_empty: bool = False


def plan(config: VerifyConfig) -> VerifyPlan:
    """Select the part.

    Raises:
        StorageError: The object store does not answer.
        UsageError: There is no such part.
    """
    if not 1 <= config.part <= config.parts:
        raise UsageError(f"part {config.part} of {config.parts}: parts are counted from 1.")
    nbytes = sample_bytes(config.lake, Sample(config.part, config.parts))
    return VerifyPlan(VerifiedPart(config.part, config.parts), nbytes)


def apply(plan: VerifyPlan, config: VerifyConfig, executor: Executor | None) -> JobReport[VerifiedPart]:
    """Verify the part.

    Raises:
        JobError: There is no lake, or it is empty, or its store does not answer.
    """
    said: list[PlacedFinding] = []
    part = Sample(config.part, config.parts)
    start = None if executor is None else lambda _: executor
    outcome = verify_whole_lake(config.lake, said.append, config.as_of_ms, sample=part, start=start)
    return JobReport.of(
        config,
        plan.outline,
        findings=tuple(said),
        metrics={**asdict(outcome.result.counts), "things": outcome.things},
    )
