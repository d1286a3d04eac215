"""``loglake state LAKE TOPIC --at WHEN --out PATH``: the newest row of each key below an offset or a time.

    loglake state LAKE orders --at orders-0:42,orders-1:7 --out state.parquet
    loglake state LAKE orders --at 2026-08-01T12:00 --out state --format delta

It is answered from `records` alone, so that it stays the same after the archive was cleaned. Prints a line for each
log, and a line for the whole. The answer is incomplete if records below the cut may be missing; it says which, and the
file says so too (`loglake.complete`, `loglake.incomplete`).

Exit codes: 0 written and complete; 1 written, and records may be missing; 3 could not be written, or a table is
damaged; 64 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from logcore.cli.reading.arguments import positive, time_ms
from logcore.exit_codes import ExitCode
from spark_jobs.lake_commands.outcome import guarded, lake_at

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_jobs.lake.delta.files.live_files import LiveFile
    from spark_jobs.lake.segments.archive import LogRow
    from spark_jobs.lake_commands.state.completeness import Lost
    from spark_jobs.row_files.log_cuts import LogCut
    from spark_jobs.row_files.newest.newest_rows import NewestCounts


class StateCommand:
    """``loglake state LAKE TOPIC``."""

    def add_parser(self, subparsers: Any) -> None:
        """Declare the command and its options."""
        parser = subparsers.add_parser(
            "state",
            help="the newest row of each key below an offset or a time",
            description="Write the newest row of each key and log of a topic as it was at an offset or a time, from "
            "the published records. Tombstones and records without a key are left out and counted.",
        )
        parser.add_argument("lake", metavar="LAKE", help="a lake: a directory, or s3://bucket/prefix")
        parser.add_argument("topic", metavar="TOPIC", help="a topic of the lake")
        parser.add_argument(
            "--at",
            required=True,
            metavar="WHEN",
            help="TOPIC-PARTITION:OFFSET[,…] for records below these offsets, other partitions left out; or a time, "
            "which is in each log the first offset whose record is not before it",
        )
        parser.add_argument("--out", required=True, metavar="PATH", help="what to write; it must not exist")
        parser.add_argument("--format", choices=("parquet", "delta"), default="parquet")
        parser.add_argument(
            "--keep-tombstones", action="store_true", help="keep deleted keys, as rows whose is_deleted is true"
        )
        parser.add_argument(
            "--keys-in-memory", type=positive, metavar="N", help="keys in memory, 51 bytes each; more go to files"
        )
        parser.set_defaults(func=lambda options: guarded(lambda: _write(options)))


state_command = StateCommand()


@dataclass(slots=True)
class _LogState:
    """A log, its cut, and what the state has of it."""

    cut: LogCut
    lost: list[Lost]
    counts: NewestCounts
    shown: int = 0


@dataclass(slots=True)
class _State:
    """All logs of the answer."""

    lake: str
    topic: str
    files: list[LiveFile]
    logs: list[_LogState] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return not any(log.lost for log in self.logs)

    def described(self) -> dict[str, str]:
        """What the file says of itself."""
        cuts = [{"log": log.cut.log.log, "partition": log.cut.log.partition, "end": log.cut.end} for log in self.logs]
        lost = [
            {"log": log.cut.log.log, "start": each.start, "end": each.end, "why": each.why}
            for log in self.logs
            for each in log.lost
        ]
        return {
            "loglake.topic": self.topic,
            "loglake.cuts": json.dumps(cuts),
            "loglake.complete": str(self.is_complete).lower(),
            "loglake.incomplete": json.dumps(lost),
        }


def _write(options: argparse.Namespace) -> int:
    from spark_jobs.lake.decoded.topic_tables import latest_spec
    from spark_jobs.lake_commands.state import output

    lake = lake_at(options.lake)
    path = output.check_place(lake, options.out)
    state = _state(lake, options.topic, options.at)
    spec = latest_spec(options.topic)
    write = output.write_parquet if options.format == output.PARQUET else output.write_delta
    write(path, spec, (_rows(state, log, options) for log in state.logs), state.described)
    for log in state.logs:
        sys.stdout.write(_line(log, kept=options.keep_tombstones))
    rows = sum(log.shown for log in state.logs)
    sys.stdout.write(f"{path}: {rows:,} rows, {'complete' if state.is_complete else 'incomplete'}\n")
    return ExitCode.CLEAN if state.is_complete else ExitCode.WARNING


def _state(lake: str, topic: str, at: str) -> _State:
    """The logs with their cuts, and what may be missing below them.

    Raises:
        UsageError: The lake has no such topic, or the cut has no known form.
        TableUnreadable: A table is damaged.
    """
    from spark_jobs.errors import UsageError
    from spark_jobs.lake.delta.files.live_files import newest_files
    from spark_jobs.lake.ledger import frontier
    from spark_jobs.lake.segments import archive
    from spark_jobs.lake_commands.state.completeness import lost_below
    from spark_jobs.lake_commands.state.cuts import cuts_at_offsets, stated_offsets
    from spark_jobs.row_files.log_cuts import cuts_at_time
    from spark_jobs.row_files.newest.newest_rows import NewestCounts

    found = [log for log in archive.read_logs(lake).values() if log.topic == topic]
    logs: list[LogRow] = sorted(found, key=lambda log: (log.partition, log.incarnation, log.log_id))
    if not logs:
        raise UsageError(f"The lake {lake} has no topic {topic}.")
    keys = [log.log for log in logs]
    frontiers, ledger = frontier.read_frontiers(lake, keys), frontier.read_ledger(lake, keys)
    files = newest_files(lake, "records")
    stated = stated_offsets(at, topic)
    if stated is not None:
        cuts = cuts_at_offsets(logs, frontiers, stated)
    else:
        try:
            moment = time_ms(at)
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"--at: {error}; offsets are {topic}-0:42,{topic}-1:7.") from error
        cuts = cuts_at_time(lake, files, logs, frontiers, moment)
    state = _State(lake, topic, files)
    for cut in cuts:
        rows = ledger.get(cut.log.log, [])
        asked = cut.end if cut.asked is None else cut.asked
        lost = lost_below(lake, rows, asked, cut.end, asks_for_all=cut.asked is None)
        state.logs.append(_LogState(cut, lost, NewestCounts()))
    return state


def _rows(state: _State, log: _LogState, options: argparse.Namespace) -> Iterator[pa.RecordBatch]:
    from spark_jobs.lake.decoded.topic_tables import latest_spec
    from spark_jobs.row_files.newest.newest_keys import KEYS_IN_MEMORY
    from spark_jobs.row_files.newest.newest_rows import newest_rows
    from spark_jobs.row_files.published_rows import Span

    of = log.cut.log
    for batch in newest_rows(
        state.lake,
        state.files,
        Span(state.topic, of.log_id, of.partition, 0, log.cut.end),
        latest_spec(state.topic),
        log.counts,
        keeps_tombstones=options.keep_tombstones,
        keys_in_memory=options.keys_in_memory or KEYS_IN_MEMORY,
    ):
        log.shown += batch.num_rows
        yield batch


def _line(log: _LogState, *, kept: bool) -> str:
    cut, counts = log.cut, log.counts
    name = cut.log.topic_partition + (f" ({cut.log.log_id})" if cut.log.incarnation else "")
    deleted = f"{counts.tombstones:,} deleted keys {'kept' if kept else 'left out'}"
    line = (
        f"{name}: below offset {cut.end:,}: {log.shown:,} rows, {deleted}, {counts.without_key:,} records without a key"
    )
    if log.lost:
        first = ", ".join(map(str, log.lost[:5]))
        more = f" and {len(log.lost) - 5} more" if len(log.lost) > 5 else ""
        line += f"; incomplete: offsets {first}{more}"
    return f"{line}\n"
