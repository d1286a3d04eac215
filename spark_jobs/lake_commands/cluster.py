"""``loglake cluster LAKE``: what the internal topics at the lake's sources say, in its tables ``cluster_…``.

    loglake cluster LAKE               the sources that are registered
    loglake cluster LAKE --dry-run     what would be written
    loglake cluster LAKE --placement   and then where the replicas are

Prints one line per table that changes, and the new findings. Then the placement report, if it was requested.

Exit codes: 0 done; 1 there are findings, a log waits, no source has an internal topic, or the report names a partition
without leader or under-replicated; 3 could not be done; 64 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
import uuid
from collections.abc import Sequence
from dataclasses import replace

from logcore.cli.internal_topics.placement import placement_text
from logcore.cli.reading.arguments import clock_ms
from logcore.exit_codes import ExitCode
from logcore.logs.model.findings import Finding, Severity
from logcore.texts import shown
from spark_jobs.errors import UsageError, guarded
from spark_jobs.lake_commands.outcome import lake_at, run_job


def cluster_command(parser: argparse.ArgumentParser) -> None:
    """``loglake cluster LAKE``."""
    parser.description = (
        "Bring the tables cluster_… up to what the internal topics at the registered sources say: "
        "__consumer_offsets, __transaction_state, __cluster_metadata and __remote_log_metadata. It can be killed "
        "and run again at any moment."
    )
    parser.add_argument("lake", metavar="LAKE", help="a lake: a directory, or s3://bucket/prefix")
    parser.add_argument(
        "--source",
        action="append",
        default=[],
        metavar="PATH",
        help="a log directory to read in place of the registered sources; repeatable",
    )
    parser.add_argument(
        "--placement",
        action="store_true",
        help="print replicas by broker and log directory, and partitions that need attention",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and write nothing")
    parser.add_argument("--as-of", type=clock_ms, metavar="TIME", help="clock of the run (default: now)")
    parser.set_defaults(func=guarded(_cluster))


def _cluster(options: argparse.Namespace) -> int:
    from logcore.cli.output.command_notes import kind_text
    from logcore.cli.output.terminal import Terminal
    from spark_jobs import launch
    from spark_jobs.contracts import ClusterConfig
    from spark_jobs.lake.setup import registry

    lake = lake_at(options.lake)
    as_of_ms = options.now_ms if options.as_of is None else options.as_of
    config = ClusterConfig.of(lake, f"cluster-{uuid.uuid4().hex}", as_of_ms, registry.recall(lake).intakes)
    sources = tuple(dict.fromkeys(map(launch.source_place, options.source or config.sources)))
    if not sources:
        raise UsageError(f"No source of {options.lake} is registered: name one with --source PATH.")
    config = replace(config, sources=sources)
    described = launch.plan(config).outline if options.dry_run else run_job(config, options.now_ms)
    word = "would be written" if options.dry_run else "written"
    changed = {name: rows for name, rows in described.rows.items() if rows or not name.endswith("_commits")}
    for name, rows in changed.items():
        sys.stdout.write(f"{name}: {rows:,} {'row' if rows == 1 else 'rows'} {word}\n")
    for log, why in described.waits.items():
        sys.stdout.write(f"{shown(log)}: waits: {shown(why)}\n")
    for each in described.findings:
        finding = Finding(each.rule, each.severity, each.message)
        sys.stderr.write(f"{kind_text(finding, Terminal.of(sys.stderr))}: {finding.message}\n")
    if not described.logs:
        sys.stdout.write("no source has an internal topic: name the log directories of brokers with --source PATH\n")
    elif not (changed or described.waits or described.findings):
        sys.stdout.write("nothing new\n")
    is_fine = described.logs and not described.waits and not described.findings
    if options.placement:
        from logcore.topics.placement import NOT_PREFERRED
        from spark_jobs.lake.view.placement import read_placement

        placement = read_placement(lake, described.directories)
        sys.stdout.write(placement_text(placement))
        is_fine = is_fine and all(each.problem == NOT_PREFERRED for each in placement.problems)
    code = ExitCode.CLEAN if is_fine else ExitCode.WARNING
    return max(code, _unusable(sources)) if options.source else code


def _unusable(sources: Sequence[str]) -> ExitCode:
    """Report named sources at which there is nothing to read; the job leaves that to `ingest`."""
    from logcore.cli.output.command_notes import CommandNotes
    from logcore.reading.chosen_logs import find_logs
    from logcore.reading.read_options import Notes, ReadOptions

    heard, notes, named = Notes(), CommandNotes(), {shown(source) for source in sources}
    find_logs(ReadOptions(tuple(sources)), heard)
    for finding in heard.findings:
        if finding.severity is Severity.ERROR and finding.file in named:
            notes.say(finding)
    return notes.exit_code
