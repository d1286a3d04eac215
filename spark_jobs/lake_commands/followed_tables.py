"""What ``loglake decode`` and ``loglake latest`` share: their options, and the job that they start."""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from logcore.cli.reading.arguments import clock_ms
from spark_jobs.lake_commands.outcome import lake_at, refuse_unmatched, run_job

if TYPE_CHECKING:
    from spark_jobs.contracts import FollowConfig
    from spark_jobs.outlines import Topic_co


def add_options(parser: argparse.ArgumentParser, replaces: str) -> None:
    """Declare the options.

    Args:
        replaces: What ``--replace`` does.
    """
    parser.add_argument("lake", metavar="LAKE", help="a lake: a directory, or s3://bucket/prefix")
    parser.add_argument("--topic", action="append", default=[], metavar="GLOB", help="only topics that match")
    parser.add_argument("--replace", action="append", default=[], metavar="TOPIC", help=replaces)
    parser.add_argument("--policies", metavar="FILE", help="a policies file (default: the registered one)")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and write nothing")
    parser.add_argument("--as-of", type=clock_ms, metavar="TIME", help="clock of the run (default: now)")


def described_topics(
    options: argparse.Namespace, made: type[FollowConfig[Topic_co]], **given: Any
) -> Sequence[Topic_co]:
    """Run the job, or plan it for ``--dry-run``; return what it says of each topic.

    Args:
        made: Configuration of the job.
        given: Its fields that only this job has.

    Raises:
        UsageError: There is no lake, or a pattern matches no topic.
        JobError: The job failed, or the lake has lost `logs` or `records`.
    """
    from spark_jobs import launch
    from spark_jobs.lake.delta.state.tables_file import refuse_lost
    from spark_jobs.lake.setup import registry
    from spark_jobs.lake.view.registered_lakes import check_policies
    from spark_jobs.policies.policies_file import read_policies

    lake = lake_at(options.lake)
    refuse_lost(lake, "logs", "records")
    refuse_unmatched(lake, options.topic)
    check_policies(lake, options.policies)
    policies = read_policies(options.policies or registry.recall(lake).policies)
    as_of_ms = options.now_ms if options.as_of is None else options.as_of
    topics = tuple(dict.fromkeys((*options.topic, *options.replace))) if options.topic else ()
    run_id = f"{made.JOB}-{uuid.uuid4().hex}"
    config = made(lake, run_id, as_of_ms, policies, topics, tuple(options.replace), **given)
    return (launch.plan(config).outline if options.dry_run else run_job(config, options.now_ms)).topics
