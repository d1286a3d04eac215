"""The steps of a run that write tables of topics: they follow `records` where a policy says so."""

from __future__ import annotations

from typing import TypeVar

from spark_jobs.contracts import DecodeConfig, FollowConfig, JobReport, LatestConfig
from spark_jobs.lake.view.decoded.latest_topics import LatestTopic
from spark_jobs.lake.view.decoded.topic_asset import TopicAsset
from spark_jobs.lake.view.decoded.topics import DecodedTopic
from spark_jobs.outlines import FollowingOutline, Topic_co

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
