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
from typing import TYPE_CHECKING

from logcore.cli.reading.arguments import positive
from logcore.exit_codes import ExitCode
from logcore.texts import shown
from spark_jobs.errors import guarded
from spark_jobs.lake_commands.followed_tables import add_options, described_topics

if TYPE_CHECKING:
    from spark_jobs.outlines import LatestOutline


def latest_command(parser: argparse.ArgumentParser) -> None:
    """``loglake latest LAKE``."""
    parser.description = (
        "Bring the tables latest/TOPIC up to what is published, as the policies say (latest). It can "
        "be killed and run again at any moment."
    )
    add_options(parser, "compute all rows of this topic again")
    parser.add_argument("--keys-in-memory", type=positive, metavar="N", help="keys in memory of a task, 51 bytes each")
    parser.set_defaults(func=guarded(_latest))


def _latest(options: argparse.Namespace) -> int:
    from spark_jobs.contracts import LatestConfig

    given = {} if options.keys_in_memory is None else {"keys_in_memory": options.keys_in_memory}
    described = described_topics(options, LatestConfig, **given)
    if not described:
        sys.stdout.write(
            f"no policy has `latest` for {'a chosen topic' if options.topic else 'a topic of this lake'}: set it to "
            "delete or soft-delete in a policies file, and name the file with --policies\n"
        )
    return max((_line(topic, dry_run=options.dry_run) for topic in described), default=ExitCode.CLEAN)


def _line(topic: LatestOutline, *, dry_run: bool) -> ExitCode:
    """Write the line of a topic; return the exit code that it calls for."""
    name, note = topic.topic, f"; {topic.note}" if topic.note else ""
    if topic.waits is not None:
        sys.stdout.write(f"{name}: waits: {shown(topic.waits)} ({topic.left:,} offsets left)\n")
        return ExitCode.WARNING
    if dry_run:
        what = "all rows again, " if topic.replaces else ""
        sys.stdout.write(f"{name}: would add {what}{topic.left:,} offsets{note}\n")
        return ExitCode.CLEAN
    logs = topic.logs or ()
    read, written = sum(log.rows_read for log in logs), sum(log.rows_written for log in logs)
    tombstones, without_key = sum(log.tombstones for log in logs), sum(log.without_key for log in logs)
    sys.stdout.write(
        f"{name}: {read:,} records read, {written:,} rows written, {tombstones:,} tombstones, {without_key:,} records "
        f"without a key{note}\n"
    )
    return ExitCode.CLEAN
