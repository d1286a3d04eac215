"""``verify``: one part of a lake proved from its own bytes, as ``loglake verify LAKE --sample n/t`` does it.

For a schedule that proves a lake piece by piece. It only reads, needs no JVM, and takes no lease: a proof may last for
hours, and runs go on meanwhile. What it finds is in its report and nowhere else: it is a fact of this moment, and the
next proof of the same part says whether it still is.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.contracts import JobReport, Scalar, VerifyConfig
from spark_jobs.lake.errors import UsageError
from spark_jobs.lake_proof.proof import LakeFinding
from spark_jobs.lake_proof.proving import Sample, prove_lake

if TYPE_CHECKING:
    from spark_jobs.tasks.executor import Executor


@dataclass(frozen=True, slots=True)
class VerifyPlan:
    """Which part is proved."""

    part: int
    parts: int
    is_empty: bool = False
    needs_spark: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {"part": self.part, "parts": self.parts}


def plan(config: VerifyConfig) -> VerifyPlan:
    """The part; UsageError where there is no such part."""
    if not 1 <= config.part <= config.parts:
        raise UsageError(f"part {config.part} of {config.parts}: parts are counted from 1.")
    return VerifyPlan(config.part, config.parts)


def apply(plan: VerifyPlan, config: VerifyConfig, executor: Executor | None) -> JobReport:
    """Prove it.

    Raises:
        JobError: there is no lake, or nothing in it, or its store does not answer.
    """
    said: list[LakeFinding] = []
    outcome = prove_lake(config.lake, said.append, sample=Sample(plan.part, plan.parts))
    return JobReport(
        job=config.JOB,
        run_id=config.run_id,
        lake=config.lake,
        findings=tuple(_plain(each) for each in said),
        plan=plan.as_dict(),
        metrics={**asdict(outcome.proof.counts), "things": outcome.things},
    )


def _plain(found: LakeFinding) -> dict[str, Scalar]:
    return {
        **asdict(found.finding),
        "severity": str(found.finding.severity),
        "table": found.table,
        "log": found.log,
        "topic": found.topic,
        "partition": found.partition,
    }
