"""``loglake latest LAKE``: the newest row of each key in the table ``latest/<topic>``.

    loglake latest LAKE                      new rows of all topics whose policy has `latest`
    loglake latest LAKE --topic orders       … of one topic
    loglake latest LAKE --replace orders     all rows of a topic again, after its policy changed
    loglake latest LAKE --dry-run            what would be done

Prints one line per topic.

Exit codes: 0 done; 1 a topic waits; 3 could not be done; 64 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
import uuid
from collections.abc import Mapping
from typing import Any

from logcore.cli.reading.arguments import clock_ms, natural
from logcore.exit_codes import ExitCode
from logcore.texts import shown
from spark_jobs.lake_commands.outcome import guarded, lake_at, refuse_unmatched, run_job


class LatestCommand:
    """``loglake latest LAKE``."""

    def add_parser(self, subparsers: Any) -> None:
        """Declare the command and its options."""
        parser = subparsers.add_parser(
            "latest",
            help="tables of the newest row of each key",
            description="Bring the tables latest/TOPIC up to what is published, as the policies say (latest). It can "
            "be killed and run again at any moment.",
        )
        parser.add_argument("lake", metavar="LAKE", help="a lake: a directory, or s3://bucket/prefix")
        parser.add_argument("--topic", action="append", default=[], metavar="GLOB", help="only topics that match")
        parser.add_argument(
            "--replace", action="append", default=[], metavar="TOPIC", help="compute all rows of this topic again"
        )
        parser.add_argument("--policies", metavar="FILE", help="a policies file (default: the registered one)")
        parser.add_argument(
            "--keys-in-memory", type=natural, metavar="N", help="keys in memory, 51 bytes each; more go to files"
        )
        parser.add_argument("--dry-run", action="store_true", help="say what would be done, and write nothing")
        parser.add_argument("--as-of", type=clock_ms, metavar="TIME", help="clock of the run (default: now)")
        parser.set_defaults(func=lambda options: guarded(lambda: _latest(options)))


latest_command = LatestCommand()


def _latest(options: argparse.Namespace) -> int:
    from spark_jobs import launch
    from spark_jobs.contracts import LatestConfig
    from spark_jobs.lake.setup import registry
    from spark_jobs.lake.setup.policies.policies_file import read_policies
    from spark_jobs.lake.view.registered_lakes import check_policies

    lake = lake_at(options.lake)
    refuse_unmatched(lake, options.topic)
    check_policies(lake, options.policies)
    policies = read_policies(options.policies or registry.recall(lake).policies)
    as_of_ms = options.now_ms if options.as_of is None else options.as_of
    topics = tuple(dict.fromkeys((*options.topic, *options.replace))) if options.topic else ()
    given = {} if options.keys_in_memory is None else {"keys_in_memory": options.keys_in_memory}
    config = LatestConfig(
        lake, f"latest-{uuid.uuid4().hex}", as_of_ms, policies, topics, tuple(options.replace), **given
    )
    if options.dry_run:
        planned: Any = launch.plan(config).as_dict()
        described = planned["topics"]
    else:
        described = run_job(config, options.now_ms)["topics"]
    if not described:
        sys.stdout.write(
            f"no policy has `latest` for {'a chosen topic' if options.topic else 'a topic of this lake'}: set it to "
            "delete or soft-delete in a policies file, and name the file with --policies\n"
        )
    return max((_line(topic, dry_run=options.dry_run) for topic in described), default=ExitCode.CLEAN)


def _line(topic: Mapping[str, Any], *, dry_run: bool) -> ExitCode:
    """Write the line of a topic; return the exit code that it calls for."""
    name, note = topic["topic"], f"; {topic['note']}" if topic["note"] else ""
    if topic["waits"] is not None:
        sys.stdout.write(f"{name}: waits: {shown(topic['waits'])} ({topic['left']:,} offsets left)\n")
        return ExitCode.WARNING
    if dry_run:
        what = "all rows again, " if topic["replaces"] else ""
        sys.stdout.write(f"{name}: would add {what}{topic['left']:,} offsets{note}\n")
        return ExitCode.CLEAN
    sums = {
        what: sum(log[what] for log in topic.get("logs", ()))
        for what in ("rows_read", "rows_written", "tombstones", "without_key")
    }
    sys.stdout.write(
        f"{name}: {sums['rows_read']:,} records read, {sums['rows_written']:,} rows written, {sums['tombstones']:,} "
        f"tombstones, {sums['without_key']:,} records without a key{note}\n"
    )
    return ExitCode.CLEAN
