"""The steps of a run that write tables of topics: they follow `records` where a policy says so."""

from __future__ import annotations

from pipelines.run.step_result import StepResult
from pipelines.run.steps import Run
from pipelines.run.topics import topic_checks
from spark_jobs.contracts import DecodeConfig, LatestConfig
from spark_jobs.lake.view.decoded.latest_topics import has_latest, latest_topics
from spark_jobs.lake.view.decoded.topics import decoded_topics, decodes
from spark_jobs.lake.view.registered_lakes import held_logs


def decode(run: Run) -> StepResult:
    """Decode keys and values of new rows, where a policy says so. Without such a policy nothing is opened."""
    policies = run.settings.policy_file(run.lake)
    if not decodes(policies) or run.logs() == ():
        return StepResult()
    chosen = _chosen_topics(run)
    topics = decoded_topics(run.lake, policies, chosen)
    if not topics:
        return StepResult()
    names = () if chosen is None else tuple(topic.topic for topic in topics)
    report = run.start(DecodeConfig(run.lake, run.run_id, run.as_of_ms, policies, topics=names))
    done = StepResult([report], state=run.state(), topics=topics)
    assert done.state is not None
    done.answers.append(topic_checks.decoded_rows_equal_records(done.state, topics, report))
    done.answers.append(topic_checks.undecoded_share_steady(done.state, topics))
    return done


def latest(run: Run) -> StepResult:
    """Bring the newest row of each key up to date, where a policy says so. Without such a policy nothing is opened."""
    policies = run.settings.policy_file(run.lake)
    if not has_latest(policies) or run.logs() == ():
        return StepResult()
    chosen = _chosen_topics(run)
    topics = latest_topics(run.lake, policies, chosen)
    if not topics:
        return StepResult()
    names = () if chosen is None else tuple(topic.topic for topic in topics)
    report = run.start(LatestConfig(run.lake, run.run_id, run.as_of_ms, policies, topics=names))
    done = StepResult([report], state=run.state(), topics=topics)
    assert done.state is not None
    done.answers.append(topic_checks.latest_follows_records(done.state, topics, report))
    return done


def _chosen_topics(run: Run) -> set[str] | None:
    """The topics of the logs that the run is for; None: all."""
    logs = run.logs()
    if logs is None:
        return None
    held = held_logs(run.lake)
    return {held[log].topic for log in logs}
