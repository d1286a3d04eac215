"""``loglake decode LAKE``: keys and values of ``records`` become typed columns of ``decoded/<topic>``.

    loglake decode LAKE                      new rows of all topics whose policy has decode.key or decode.value
    loglake decode LAKE --topic orders       … of one topic
    loglake decode LAKE --replace orders     all rows of a topic again, after its policy or a schema changed
    loglake decode LAKE --dry-run            what would be done
    loglake decode LAKE --infer orders       a proposal for the policy of a topic, from a sample of its records

Prints one line per topic: rows decoded, rows that could not be decoded by reason, and offsets that are left.

Exit codes: 0 done; 1 a topic waits, or rows could not be decoded; 2 decoded and undecoded rows are not the rows of
`records`; 3 could not be done; 64 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from typing import TYPE_CHECKING

from logcore.exit_codes import ExitCode
from logcore.texts import json_shown, shown
from spark_jobs.errors import UsageError, guarded
from spark_jobs.lake_commands.followed_tables import add_options, described_topics
from spark_jobs.lake_commands.outcome import lake_at

if TYPE_CHECKING:
    from spark_jobs.outlines import DecodedOutline


def decode_command(parser: argparse.ArgumentParser) -> None:
    """``loglake decode LAKE``."""
    parser.description = (
        "Decode keys and values of published records into the tables decoded/TOPIC, as the policies "
        "say (decode.key, decode.value). Rows that cannot be decoded are in undecoded/TOPIC with their reason. It "
        "can be killed and run again at any moment."
    )
    add_options(parser, "decode all rows of this topic again")
    parser.add_argument(
        "--infer",
        action="append",
        default=[],
        metavar="TOPIC",
        help="print a policy and a JSON schema for this topic to accept; write nothing",
    )
    parser.set_defaults(func=guarded(_decode))


def _decode(options: argparse.Namespace) -> int:
    from spark_jobs.contracts import DecodeConfig

    lake = lake_at(options.lake)
    if len(options.infer) > 1:
        raise UsageError("--infer takes one topic; name each topic in a command of its own.")
    if options.infer:
        return _infer(lake, options.infer[0])
    described = described_topics(options, DecodeConfig)
    if not described:
        sys.stdout.write(
            f"no policy decodes {'a chosen topic' if options.topic else 'a topic of this lake'}: set decode.value or "
            "decode.key of a topic in a policies file, and name it with --policies; --infer TOPIC proposes settings\n"
        )
        return ExitCode.CLEAN
    code = ExitCode.CLEAN
    for topic in described:
        code = max(code, _line(lake, topic, dry_run=options.dry_run))
    return code


def _infer(lake: str, topic: str) -> int:
    """Print a policy to accept, what was seen, and schemas."""
    from spark_jobs.decode.inference import propose
    from spark_jobs.lake.delta.state.tables_file import refuse_lost
    from spark_jobs.lake.store.storage import folder_name

    refuse_lost(lake, "logs", "records")
    proposals = propose(lake, topic)
    for each in proposals:
        for line in each.seen:
            sys.stdout.write(f"# {each.part}: {shown(line)}\n")  # names of records must not end the comment
    if not any(each.format for each in proposals):
        sys.stdout.write("# nothing is proposed\n")
        return ExitCode.WARNING
    sys.stdout.write(f"topics:\n  {topic}:\n")
    files = {each.part: folder_name(topic, f".{each.part}.json") for each in proposals}
    for each in proposals:
        if each.format is not None:
            sys.stdout.write(f"    decode.{each.part}: {each.format}\n")
        if each.schema is not None:
            sys.stdout.write(f"    decode.{each.part}.schema: {files[each.part]}\n")
    share = min(math.ceil(100 * sum(each.undecoded for each in proposals)) / 100, 1)
    if share:
        sys.stdout.write(f"    decode.undecoded.max: {share:g}  # as in the sample, rounded up\n")
    for each in proposals:
        if each.schema is not None:
            schema = json_shown(json.dumps(each.schema, indent=2, ensure_ascii=False))
            sys.stdout.write(f"\n# {files[each.part]}, a file beside the policies:\n{schema}\n")
    return ExitCode.CLEAN


def _line(lake: str, topic: DecodedOutline, *, dry_run: bool) -> ExitCode:
    """Write the line of a topic; return the exit code that it calls for."""
    name = topic.topic
    if topic.waits is not None and topic.decoded is None:
        sys.stdout.write(f"{name}: waits: {shown(topic.waits)} ({topic.left:,} offsets left)\n")
        return ExitCode.WARNING
    note = "".join(f"; {more}" for more in (topic.waits, topic.note, topic.retried) if more)
    if dry_run:
        what = "all rows again, " if topic.replaces else ""
        sys.stdout.write(f"{name}: would decode {what}{topic.left:,} offsets{note}\n")
        return ExitCode.CLEAN
    reasons = topic.undecoded or {}
    failed = "".join(f", {rows:,} {reason}" for reason, rows in sorted(reasons.items()))
    wrong = _unbalanced(lake, name)
    sys.stdout.write(
        f"{name}: {topic.decoded or 0:,} decoded, {sum(reasons.values()):,} undecoded{failed}, "
        f"{topic.left:,} offsets left{note}{wrong}\n"
    )
    if wrong:
        return ExitCode.DAMAGE
    return ExitCode.WARNING if reasons or topic.waits else ExitCode.CLEAN


def _unbalanced(lake: str, topic: str) -> str:
    """What is wrong with the rows of a topic; empty if nothing is."""
    from spark_jobs.lake.decoded.balance import balances
    from spark_jobs.lake.segments import archive

    logs = [log for log in archive.read_logs(lake).values() if log.topic == topic]
    return "".join(
        f"; partition {each.partition}: {each.records:,} rows of records below offset {each.end:,}, "
        f"{each.decoded:,} decoded and {each.undecoded:,} undecoded. To decode again: loglake decode {lake} --replace "
        f"{topic}"
        for each in balances(lake, topic, logs)
        if not each.holds
    )
