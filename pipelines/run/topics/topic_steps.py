"""The steps of a run that write tables of topics: they follow `records` where a policy says so.

And the step that writes the tables of the cluster, from Kafka's internal topics at the sources, with its checks.
"""

from __future__ import annotations

from typing import TypeVar

from logcore.logs.model.findings import Severity
from spark_jobs.contracts import ClusterConfig, DecodeConfig, FollowConfig, JobReport, LatestConfig
from spark_jobs.lake.view.cluster.followed_topics import has_internal_topics
from spark_jobs.lake.view.decoded.latest_topics import LatestTopic
from spark_jobs.lake.view.decoded.topic_asset import TopicAsset
from spark_jobs.lake.view.decoded.topics import DecodedTopic
from spark_jobs.lake.view.lake_state import LakeState
from spark_jobs.outlines import ClusterOutline, FollowingOutline, Topic_co

from ..check_definitions import (
    CLUSTER_FOLLOWS_SOURCES,
    NO_COMMIT_BEYOND_LOG_END,
    CheckAnswer,
    Failure,
    counted,
)
from ..step_result import StepResult
from ..steps import Run
from . import topic_checks

Asset = TypeVar("Asset", bound=TopicAsset)


def decode(run: Run) -> StepResult:
    """Decode keys and values of new rows, where a policy says so. Without such a policy nothing is opened."""
    done, topics, report = _written(run, DecodedTopic, DecodeConfig)
    if done.state is not None:
        done.answers.append(topic_checks.decoded_rows_equal_records(done.state, topics, report))
        done.answers.append(topic_checks.undecoded_share_steady(done.state, topics))
        done.answers.append(topic_checks.schemas_of_own_subject(done.state, topics))
    return done


def latest(run: Run) -> StepResult:
    """Bring the newest row of each key up to date, where a policy says so. Without such a policy nothing is opened."""
    done, topics, report = _written(run, LatestTopic, LatestConfig)
    if done.state is not None:
        done.answers.append(topic_checks.latest_follows_records(done.state, topics, report))
    return done


def _written(
    run: Run, asset: type[Asset], config: type[FollowConfig[Topic_co]]
) -> tuple[StepResult, list[Asset], JobReport[FollowingOutline[Topic_co]] | None]:
    """Start the job for all topics; without topics nothing is started, and the result has no state.

    A run for chosen logs does so too: the checks answer for the lake, and only new rows cost time.
    """
    topics = asset.all_of(run.lake, run.policies)
    if not topics or run.logs() == ():
        return StepResult(), [], None
    report = run.start(config(run.lake, run.run_id, run.as_of_ms, run.policies))
    return StepResult([report], state=run.state(), topics=topics), topics, report


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
