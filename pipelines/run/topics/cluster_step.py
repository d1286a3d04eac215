"""The step of a run that writes the tables of the cluster, from Kafka's internal topics there; its checks."""

from __future__ import annotations

from logcore.logs.model.findings import Severity
from spark_jobs.contracts import ClusterConfig, JobReport
from spark_jobs.lake.view.cluster.followed_topics import has_internal_topics
from spark_jobs.lake.view.lake_state import LakeState
from spark_jobs.outlines import ClusterOutline

from ..check_definitions import (
    CLUSTER_FOLLOWS_SOURCES,
    NO_COMMIT_BEYOND_LOG_END,
    CheckAnswer,
    Failure,
    counted,
)
from ..step_result import StepResult
from ..steps import Run


def cluster(run: Run) -> StepResult:
    """Write what internal topics say into the tables of the cluster, if the sources have such topics.

    A run for chosen topics or partitions does not: lag and groups are about all of them.
    """
    intakes = [intake for intake in run.intakes if not intake.topics and not intake.partitions]
    if (
        not run.follows_cluster
        or run.keys is not None
        or not intakes
        or not has_internal_topics(run.lake, run.policies)
    ):
        return StepResult()
    report = run.start(ClusterConfig.of(run.lake, run.run_id, run.as_of_ms, intakes, only_after_intake=True))
    state = run.state()
    answers = [
        cluster_follows_sources(state, report),
        no_commit_beyond_log_end(state, report),
    ]
    return StepResult([report], answers, state=state)


def cluster_follows_sources(state: LakeState, report: JobReport[ClusterOutline]) -> CheckAnswer:
    """Check that no internal topic waits.

    Args:
        state: The lake.
        report: Of the job `cluster`.
    """
    waits = sorted(report.plan.waits.items())
    return CLUSTER_FOLLOWS_SOURCES.answer(
        state.lake,
        [Failure(f"{log} waits: {why}", severity=Severity.WARNING) for log, why in waits],
        f"the tables follow {counted(len(report.plan.logs), 'internal log')}",
        {"internal logs": len(report.plan.logs)},
    )


def no_commit_beyond_log_end(state: LakeState, report: JobReport[ClusterOutline]) -> CheckAnswer:
    """Check that no group has committed an offset beyond the end of a log.

    Args:
        state: The lake.
        report: Of the job `cluster`.
    """
    found = report.plan.beyond_log_end
    return NO_COMMIT_BEYOND_LOG_END.answer(
        state.lake,
        [Failure(message.removesuffix("."), severity=Severity.WARNING) for message in found],
        "every committed offset is within its log",
        {"commits beyond the end of a log": len(found)},
    )
