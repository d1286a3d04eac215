"""`loglake reindex`: index files and producer snapshots as a broker's recovery writes them; segments are copied as they
are.

Exit codes: 0 · 1 the log ends in a batch that is not whole · 2 a segment is damaged: its side files stay as they were ·
3 not possible.
"""

from __future__ import annotations

import argparse
import sys

from logcore.cli import maintenance
from logcore.cli.looking import Notes
from logcore.cli.recover import summary
from logcore.columns.engines import segment_recovery
from logcore.logs.findings import Finding
from logcore.logs.recovery.reindexing import plan_reindex


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], parent: argparse.ArgumentParser
) -> None:
    """Add `reindex` to the command line."""
    parser = subparsers.add_parser(
        "reindex",
        parents=[parent],
        help="index files as a broker's recovery writes them",
        description="Make a copy of a partition directory whose .index, .timeindex, .txnindex and .snapshot files are "
        "made again from the segments, as a broker's recovery of all of them writes them. Segments are not touched; "
        "beside one that is damaged everything stays as it is.",
    )
    maintenance.add_arguments(parser)
    parser.set_defaults(func=run, parser=parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    config = maintenance.check_arguments(arguments)
    notes = Notes()
    read: list[Finding] = []
    with maintenance.source(arguments, read) as directory:
        for finding in read:
            if finding.rule != "no-high-watermark":
                notes.say(finding)
        plan = plan_reindex(
            directory,
            config,
            line=arguments.compat,
            as_of_ms=maintenance.as_of_ms(arguments),
            recover=segment_recovery(),
        )
        if arguments.plan:
            maintenance.print_plan(arguments, directory, plan.as_dict())
        if plan.refusal is not None:
            sys.stderr.write(f"error: {plan.refusal} Nothing was written.\n")
        elif not arguments.plan:
            maintenance.write(arguments, directory, plan.files, plan.root)
            sys.stdout.write(summary(plan, arguments.out))
    return max(plan.exit_code, notes.exit_code)
