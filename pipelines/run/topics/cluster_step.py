"""The step of a run that writes the tables of the cluster, from Kafka's internal topics at the sources."""

from __future__ import annotations

from spark_jobs.contracts import ClusterConfig
from spark_jobs.lake.view.cluster.followed_topics import has_internal_topics

from ..step_result import StepResult
from ..steps import Run
from . import cluster_checks


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
        cluster_checks.cluster_follows_sources(state, report),
        cluster_checks.no_commit_beyond_log_end(state, report),
    ]
    return StepResult([report], answers, state=state)
