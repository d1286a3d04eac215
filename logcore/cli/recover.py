"""`loglake recover`: what a broker's unclean start would leave of a partition directory, or more than it would leave.

Exit codes: 0 nothing is lost · 1 warnings · 2 something is cut, dropped or hidden · 3 a broker would not start, or the
directory cannot be read. The new directory is written with 0, 1 and 2.
"""

from __future__ import annotations

import argparse
import os
import sys

from logcore.cli import maintenance
from logcore.cli.looking import Notes
from logcore.columns.engines import segment_recovery
from logcore.logs.findings import Finding
from logcore.logs.recovery.plan import RecoveryPlan, plan_recovery, root_refusal
from logcore.storage.files import shown

_ROOT_OPTIONS = ("recovery_point", "log_start_offset", "high_watermark", "first_dirty_offset")


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], parent: argparse.ArgumentParser
) -> None:
    """Add `recover` to the command line."""
    parser = subparsers.add_parser(
        "recover",
        parents=[parent],
        help="what a broker's unclean start would leave",
        description="Make a copy of a partition directory as a broker leaves it that starts after it was killed: the "
        "valid prefix of the log from the recovery point on, side files made again. What the broker loses by that, or "
        "leaves in the log although nobody can read it, is said. With --salvage nothing that is good is lost: damaged "
        "bytes are cut out, good batches behind them and later segments are kept.",
    )
    maintenance.add_arguments(parser)
    parser.add_argument("--salvage", action="store_true", help="keep what a broker would lose")
    parser.set_defaults(func=run, parser=parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    config = maintenance.check_arguments(arguments)
    notes = Notes()
    read: list[Finding] = []
    with maintenance.source(arguments, read) as directory:
        stated = [name for name in _ROOT_OPTIONS if getattr(arguments, name) is not None]
        refusal = None if arguments.salvage else root_refusal(read, stated)
        if refusal is None:
            plan = plan_recovery(
                directory,
                config,
                line=arguments.compat,
                as_of_ms=maintenance.as_of_ms(arguments),
                salvage=arguments.salvage,
                recover=segment_recovery(),
            )
        else:
            plan = RecoveryPlan({}, refusal=refusal)
        for finding in read:
            if finding.rule != "no-high-watermark" and refusal is None:
                notes.say(finding)
        code = max(plan.exit_code, notes.exit_code)
        if arguments.plan:
            maintenance.print_plan(arguments, directory, plan.as_dict())
        if plan.refusal is not None:
            sys.stderr.write(f"error: {plan.refusal} Nothing was written.{_advice(arguments)}\n")
        elif not arguments.plan:
            maintenance.write(arguments, directory, plan.files, plan.root)
            sys.stdout.write(summary(plan, arguments.out))
    return code


def summary(plan: RecoveryPlan, out: str) -> str:
    """What is lost, line by line, and what the new directory holds."""
    lines = []
    for loss in plan.losses:
        place = "" if loss.position is None else f", position {loss.position}"
        lines.append(f"{loss.severity} {loss.kind}: {loss.file}{place}: {loss.message}\n")
    segments = sum(name.endswith(".log") for name in plan.files)
    end = f", log end offset {plan.log_end_offset}" if plan.log_end_offset else ""
    lines.append(f"{shown(os.path.normpath(out))}: {segments} segments, {len(plan.files)} files{end}\n")
    return "".join(lines)


def _advice(arguments: argparse.Namespace) -> str:
    return "" if arguments.salvage else " With --salvage what is good in it is kept."
