"""The steps of a run that write tables of topics: they follow `records` where a policy says so."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.run.step_result import StepResult
from pipelines.run.steps import Run
from pipelines.run.topics import topic_checks
from spark_jobs.contracts import DecodeConfig, JobConfig, JobReport, LatestConfig
from spark_jobs.lake.view.decoded.latest_topics import has_latest, latest_topics
from spark_jobs.lake.view.decoded.topic_asset import TopicAsset
from spark_jobs.lake.view.decoded.topics import decoded_topics, decodes
from spark_jobs.lake.view.registered_lakes import held_logs


def decode(run: Run) -> StepResult:
    """Decode keys and values of new rows, where a policy says so. Without such a policy nothing is opened."""
    if not decodes(run.policies) or run.logs() == ():
        return StepResult()
    chosen = _chosen_topics(run)
    topics = decoded_topics(run.lake, run.policies, chosen)
    config = DecodeConfig(run.lake, run.run_id, run.as_of_ms, run.policies, topics=_names(topics, chosen))
    done, report = _written(run, config, topics)
    if done.state is not None:
        done.answers.append(topic_checks.decoded_rows_equal_records(done.state, topics, report))
        done.answers.append(topic_checks.undecoded_share_steady(done.state, topics))
        done.answers.append(topic_checks.schemas_of_own_subject(done.state, topics))
    return done


def latest(run: Run) -> StepResult:
    """Bring the newest row of each key up to date, where a policy says so. Without such a policy nothing is opened."""
    if not has_latest(run.policies) or run.logs() == ():
        return StepResult()
    chosen = _chosen_topics(run)
    topics = latest_topics(run.lake, run.policies, chosen)
    config = LatestConfig(run.lake, run.run_id, run.as_of_ms, run.policies, topics=_names(topics, chosen))
    done, report = _written(run, config, topics)
    if done.state is not None:
        done.answers.append(topic_checks.latest_follows_records(done.state, topics, report))
    return done


def _written(run: Run, config: JobConfig, topics: Sequence[TopicAsset]) -> tuple[StepResult, JobReport | None]:
    """Start the job of some topics; without topics nothing is started, and the result has no state."""
    if not topics:
        return StepResult(), None
    report = run.start(config)
    return StepResult([report], state=run.state(), topics=topics), report


def _names(topics: Sequence[TopicAsset], chosen: set[str] | None) -> tuple[str, ...]:
    return () if chosen is None else tuple(topic.topic for topic in topics)


def _chosen_topics(run: Run) -> set[str] | None:
    """The topics of the logs that the run is for; None: all."""
    logs = run.logs()
    if logs is None:
        return None
    held = held_logs(run.lake)
    return {held[log].topic for log in logs}
