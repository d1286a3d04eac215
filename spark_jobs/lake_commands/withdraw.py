"""``loglake withdraw LAKE``: leave out rows that were deleted from ``records`` on purpose.

    loglake withdraw LAKE                                           which rows are gone
    loglake withdraw LAKE --topic orders --reason GDPR-17 --apply   … and withdraw them

Needs neither a JVM nor Dagster. It writes a jsonl line for each range, with keys in this order, and then a summary:

    topic, partition, log, start_offset, end_offset, records (null where unclear), withdrawn, unclear (text or null)
    {"summary": {table_version, logs, ranges, records, unclear, applied, run_id (null where nothing was written)}}

Exit codes: 0 nothing is gone, or it is withdrawn now · 1 something could be withdrawn, and nothing was written · 2 of
some offsets it is not clear which rows are gone · 3 could not be done · 64 wrong usage.
"""

from __future__ import annotations

import argparse
import getpass
import socket
import sys
from typing import TYPE_CHECKING

from logcore.cli.output.record_lines import json_line
from logcore.cli.reading.arguments import clock_ms, natural, offset_range, selection_of
from logcore.exit_codes import ExitCode
from spark_jobs.errors import guarded
from spark_jobs.lake.repair_commands import replace_command
from spark_jobs.lake_commands.outcome import lake_at, working

if TYPE_CHECKING:
    from spark_jobs.lake.published.withdrawals import WithdrawalPlan

NOT_ERASED = (
    "Withdrawn is not erased: the archive still holds the bytes of these records, and so do older versions of the "
    "table until they are vacuumed."
)


def withdraw_command(parser: argparse.ArgumentParser) -> None:
    """``loglake withdraw LAKE``."""
    parser.description = (
        "Compare the rows of the table records with the offset ledger, and list published offsets "
        "whose rows are gone. With --apply, record them as withdrawn: checks are green without them, and no later "
        "run brings them back (loglake run PATH --lake LAKE --replace A..B --include-withdrawn does). Rows that "
        f"are still there are never removed. {NOT_ERASED}"
    )
    parser.add_argument("lake", metavar="LAKE", help="a lake: a directory, or s3://bucket/prefix")
    parser.add_argument("--topic", action="append", default=[], metavar="GLOB", help="only topics that match")
    parser.add_argument(
        "--partition", action="append", default=[], type=natural, metavar="N", help="only this partition number"
    )
    parser.add_argument(
        "--offsets", type=offset_range, metavar="A..B", help="only these offsets of each log (B is not included)"
    )
    parser.add_argument("--reason", metavar="TEXT", help="why, kept with the withdrawal")
    parser.add_argument("--apply", action="store_true", help="record it; without it nothing is written")
    parser.add_argument("--as-of", type=clock_ms, metavar="TIME", help="when, as it is recorded (default: now)")
    parser.add_argument("--format", choices=("text", "jsonl"), default="text")
    parser.set_defaults(func=guarded(_withdraw))


def _withdraw(options: argparse.Namespace) -> int:
    from spark_jobs.lake.delta.state.tables_file import refuse_lost
    from spark_jobs.lake.delta.tables import table_features
    from spark_jobs.lake.published import withdrawals

    lake = lake_at(options.lake)
    start, end = (None, None) if options.offsets is None else (options.offsets.start, options.offsets.end)

    def plan() -> WithdrawalPlan:
        return withdrawals.plan(lake, selection_of(options), start, end)

    run_id = None
    table_features.refuse_unsupported(lake)
    refuse_lost(lake, "logs", "offset_ledger")
    if options.apply:
        with working(lake, withdrawals.WITHDRAW, options.now_ms) as run:
            made = plan()
            if not made.is_empty:
                run_id, run.wrote = run.run_id, True
                as_of_ms = options.now_ms if options.as_of is None else options.as_of
                who = f"{getpass.getuser()}@{socket.gethostname()}"
                withdrawals.apply(lake, made, who=who, reason=options.reason, run_id=run_id, as_of_ms=as_of_ms)
    else:
        made = plan()
    sys.stdout.write(_lines(made, run_id) if options.format == "jsonl" else _text(lake, made, run_id))
    if any(log.unclear for log in made.logs):
        return ExitCode.DAMAGE
    return ExitCode.WARNING if not made.is_empty and run_id is None else ExitCode.CLEAN


def _lines(made: WithdrawalPlan, run_id: str | None) -> str:
    lines: list[dict[str, object]] = []
    for log in made.logs:
        place: dict[str, object] = {"topic": log.row.topic, "partition": log.row.partition, "log": log.row.log}
        for each in log.ranges:
            span: dict[str, object] = {"start_offset": each.start_offset, "end_offset": each.end_offset}
            lines.append(place | span | {"records": each.records, "withdrawn": run_id is not None, "unclear": None})
        for doubt in log.unclear:
            span = {"start_offset": doubt.start_offset, "end_offset": doubt.end_offset}
            lines.append(place | span | {"records": None, "withdrawn": False, "unclear": doubt.why})
    summary = {
        "table_version": made.table_version,
        "logs": sum(bool(log.ranges) for log in made.logs),
        "ranges": sum(len(log.ranges) for log in made.logs),
        "records": sum(log.records for log in made.logs),
        "unclear": sum(len(log.unclear) for log in made.logs),
        "applied": run_id is not None,
        "run_id": run_id,
    }
    lines.append({"summary": summary})
    return "".join(json_line(line) for line in lines)


def _text(lake: str, made: WithdrawalPlan, run_id: str | None) -> str:
    from spark_jobs.lake.view.lake_state import has_uncommitted

    lines = []
    for log in made.logs:
        lines.append(f"{log.row.topic_partition}  log {log.row.log}")
        lines += [f"  offsets [{r.start_offset}, {r.end_offset})  {r.records:,} records" for r in log.ranges]
        lines += [f"  offsets [{d.start_offset}, {d.end_offset})  left alone: {d.why}" for d in log.unclear]
    if made.is_empty:
        lines.append("no row that the ledger counts as published is gone from records; nothing to withdraw")
        return "\n".join(lines) + "\n"
    ranges, records = sum(len(log.ranges) for log in made.logs), sum(log.records for log in made.logs)
    what = f"{records:,} records in {ranges:,} ranges"
    if run_id is None:
        lines.append(
            f"{what} are gone from records as of version {made.table_version}. Nothing was written: --apply withdraws "
            f"them. If they were not deleted on purpose, bring them back: {replace_command(lake)}"
        )
    else:
        lines.append(f"{what} are withdrawn (run {run_id}).")
    lines.append(NOT_ERASED)
    if has_uncommitted(lake):
        lines.append("The table records_uncommitted is not checked: delete their rows there too if required.")
    return "\n".join(lines) + "\n"
