"""``loglake lineage LAKE``: from a row to its bytes, and from a version of a table to the segments it came from.

    loglake lineage LAKE --offset orders-0:42
    loglake lineage LAKE/tables/records_uncommitted --version 7

Needs neither a JVM nor Dagster. A jsonl line for each requested offset and each log that has it, with keys in this
order:

    topic, partition, offset, log, log_id, in_table, explanation (null in the table), damaged, problems [text],
    row       {file, segment_id, position, transaction_state} or null
    ledger    {start_offset, end_offset, state, evidence, published, archived, withdrawn} or null; frontier beside it
    segment   {segment_id, base_offset, next_offset, size, digest, generation, archive_file, archive_start, held,
               origin_file, origin_position, retired_ms, retired_because, replaced_by} or null
    successors [segment, …]      what has replaced it
    batch     {position, archive_position, origin_position, size, magic, base_offset, last_offset, record_count, codec,
               timestamp_type, max_timestamp, producer_id, producer_epoch, base_sequence, is_transactional, is_control,
               leader_epoch, crc, crc_computed, holds_offset, crc_ok} or null; crc_ok: computed from the present bytes
    commit    {version, timestamp_ms, operation, run_id} of the file that has the row; published_by: of the frontier
    findings  [{rule, severity, message, file, position, nbytes, start_offset, end_offset}, …] that are open
    withdrawal {start_offset, end_offset, records, table_version, run_id, who, withdrawn_ms, reason} or null

For a version it writes a line for each log in it, then a summary:

    topic, partition, log, log_id, rows, start_offset, end_offset, segments [segment + rows, first_offset, last_offset]
    {"summary": {version, timestamp_ms, operation, run_id, data_change, files_added, bytes_added, rows_added,
                 files_removed, rows_removed, application_ids {id: version}, files_gone [path, …]}}

Exit codes: 0 explained, 2 damage (lost or untrusted offsets, a checksum that does not match, tables that disagree),
3 could not be checked: no lake, or nothing of that name in it; 64 wrong usage.

The origin of a version of ``records``: its commit, and per log the offsets and the segments of its rows.

Segments are read from the rows of the files that the commit added. For files that were vacuumed since, only their
statistics are left. Keys and values of records are never read.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from deltalake.exceptions import DeltaError

from logcore.cli.output.record_lines import json_line
from logcore.cli.reading.arguments import natural
from logcore.exit_codes import ExitCode
from logcore.texts import shown, time_text
from spark_jobs.errors import JobError, guarded
from spark_jobs.groups import by_key
from spark_jobs.lake.delta.tables import delta_log
from spark_jobs.lake.delta.tables.delta_log import Commit
from spark_jobs.lake.delta.tables.snapshots import open_dataset, open_table
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import Segment
from spark_jobs.lake.setup.identity import not_there

if TYPE_CHECKING:
    from spark_jobs.lake.lineage import OffsetLineage


def version_lines(lake: str, name: str, version: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the lines of the logs of a version, and its summary: what it added and removed, and where from.

    Raises:
        JobError: The lake, the table or the version does not exist, or the table's log no longer keeps that version.
    """
    newest = delta_log.newest_version(lake, name)
    if newest is None:
        raise not_there(lake, f"table {name}")
    if version > newest:
        raise JobError(f"The table {name} of lake {lake} is at version {newest}; there is no version {version}.")
    commit = delta_log.read_commit(lake, name, version)
    if commit is None:
        raise JobError(f"The table {name} of lake {lake} no longer keeps the log of version {version}.")
    added, gone = _added_rows(lake, name, commit)
    summary = {
        **(_commit_fields(commit) or {}),
        "data_change": commit.data_change,
        "files_added": len(commit.added),
        "bytes_added": sum(added.size for added in commit.added),
        "rows_added": sum(added.rows or 0 for added in commit.added),
        "files_removed": len(commit.removed),
        "rows_removed": _rows_before(lake, name, version, commit.removed),
        "application_ids": dict(sorted(commit.application_ids.items())),
        "files_gone": gone,
    }
    return list(_log_lines(lake, added)), summary


def _added_rows(lake: str, name: str, commit: Commit) -> tuple[list[dict[str, Any]], list[str]]:
    """Count the rows of the files that a commit added, by log and segment; also return the files that are gone."""
    import pyarrow as pa

    wanted = {added.path for added in commit.added}
    parts: list[pa.Table] = []
    gone: list[str] = []
    if not wanted:
        return [], gone
    table = open_table(lake, name)
    assert table is not None  # its newest version was just read
    table.load_as_version(commit.version)
    keys = ["topic", "partition", "log_id", "segment_id"]
    dataset = open_dataset(lake, name, table)
    for fragment in dataset.get_fragments():
        if fragment.path not in wanted:
            continue
        try:
            for batch in fragment.to_batches(schema=dataset.schema, columns=[*keys, "offset"]):
                grouped = pa.Table.from_batches([batch]).group_by(keys)
                parts.append(grouped.aggregate([("offset", "count"), ("offset", "min"), ("offset", "max")]))
        except FileNotFoundError:
            gone.append(fragment.path)
    if not parts:
        return [], gone
    grouped = pa.concat_tables(parts).group_by(keys)
    whole = grouped.aggregate([("offset_count", "sum"), ("offset_min", "min"), ("offset_max", "max")])
    counted = whole.select([*keys, "offset_count_sum", "offset_min_min", "offset_max_max"])
    return counted.rename_columns([*keys, "rows", "first_offset", "last_offset"]).to_pylist(), gone


def _log_lines(lake: str, added: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The line of each log of a version, from its rows by segment."""
    segments = {s.segment_id: s for s in archive.read_segments(lake, live=False)} if added else {}
    by_log = by_key(added, lambda row: (row["topic"], row["partition"], row["log_id"]))
    for (topic, partition, log_id), rows in sorted(by_log.items()):
        yield {
            "topic": topic,
            "partition": partition,
            "log": archive.log_key(log_id, partition),
            "log_id": log_id,
            "rows": sum(row["rows"] for row in rows),
            "start_offset": min(row["first_offset"] for row in rows),
            "end_offset": max(row["last_offset"] for row in rows) + 1,
            "segments": [
                _segment_line(lake, row, segments.get(row["segment_id"]))
                for row in sorted(rows, key=lambda row: int(row["first_offset"]))
            ],
        }


def _segment_line(lake: str, row: dict[str, Any], segment: Segment | None) -> dict[str, Any]:
    """A segment of a version; its id alone if the table ``segments`` does not have it."""
    named = {"segment_id": row["segment_id"]} if segment is None else segment_fields(lake, segment)
    return named | {name: row[name] for name in ("rows", "first_offset", "last_offset")}


def _rows_before(lake: str, name: str, version: int, removed: Iterable[str]) -> int | None:
    """Return the number of rows of the removed files, by the version before; None: it can no longer be read."""
    import pyarrow as pa

    paths = set(removed)
    if not paths:
        return 0
    table = open_table(lake, name)
    try:
        assert table is not None
        table.load_as_version(version - 1)
        files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    except DeltaError:
        return None
    counted = [file["num_records"] for file in files if file["path"] in paths]
    return sum(counted) if len(counted) == len(paths) and None not in counted else None


Place = tuple[str, int, int]


def lineage_command(parser: argparse.ArgumentParser) -> None:
    """``loglake lineage TABLE``."""
    parser.description = (
        "Say of an offset in which segment file and batch it lies, whether the checksum still holds, "
        "and which commit published it, or why it has no row. Or say of a version of the table what it added and "
        "which segments that came from. Only reads."
    )
    parser.add_argument("table", metavar="LAKE", help="a lake, or one of its tables: LAKE/tables/records")
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument(
        "--offset",
        action="append",
        type=place,
        metavar="TOPIC-PARTITION:OFFSET",
        help="for instance orders-0:42; repeatable",
    )
    wanted.add_argument("--version", type=natural, metavar="N", help="a version of the table")
    parser.add_argument("--format", choices=("text", "jsonl"), default="text")
    parser.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), default="warning", help="what is logged"
    )
    parser.set_defaults(func=guarded(_lineage))


def _lineage(options: argparse.Namespace) -> int:
    return _offsets(options) if options.version is None else _version(options)


def place(text: str) -> Place:
    """``orders-0:42`` as topic, partition and offset."""
    match = re.fullmatch(r"(.+)-([0-9]{1,10}):([0-9]{1,18})", text, re.ASCII)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no place in a log; write TOPIC-PARTITION:OFFSET, orders-0:42")
    return match[1], int(match[2]), int(match[3])


def _offsets(options: argparse.Namespace) -> int:
    from spark_jobs.lake.lineage import offset_lineage, parse_table

    lake, name = parse_table(options.table)
    code = ExitCode.CLEAN
    for topic, partition, offset in options.offset:
        for found in offset_lineage(lake, name, topic, partition, offset):
            fields = offset_fields(lake, found)
            sys.stdout.write(json_line(fields) if options.format == "jsonl" else _lines(_text(fields)))
            code = ExitCode.DAMAGE if found.is_damaged else code
    return code


def _version(options: argparse.Namespace) -> int:
    from spark_jobs.lake.lineage import parse_table

    lake, name = parse_table(options.table)
    logs, summary = version_lines(lake, name, options.version)
    for fields in logs:
        sys.stdout.write(json_line(fields) if options.format == "jsonl" else _lines(_log_text(fields)))
    sys.stdout.write(json_line({"summary": summary}) if options.format == "jsonl" else _summary_text(summary))
    return ExitCode.CLEAN


# --- fields: a contract -----------------------------------------------------------------------------------------------


def offset_fields(lake: str, found: OffsetLineage) -> dict[str, Any]:
    """The line of one offset."""
    ledger, row = found.ledger, found.row
    return {
        "topic": found.log.topic,
        "partition": found.log.partition,
        "offset": found.offset,
        "log": found.log.log,
        "log_id": found.log.log_id,
        "in_table": row is not None,
        "explanation": found.why_not,
        "damaged": found.is_damaged,
        "problems": list(found.problems),
        "row": None if row is None else {k: v for k, v in asdict(row).items() if k != "log_id"},
        "ledger": None
        if ledger is None
        else {
            **_named(ledger, "start_offset", "end_offset"),
            "state": str(ledger.state),
            "evidence": ledger.shown_by,
            **_named(ledger, "published", "archived", "withdrawn"),
        },
        "frontier": found.frontier,
        "segment": None if found.segment is None else segment_fields(lake, found.segment, held=found.held),
        "successors": [segment_fields(lake, segment) for segment in found.successors],
        "batch": None if found.batch is None else found.batch.plain,
        "commit": _commit_fields(found.commit),
        "published_by": _commit_fields(found.published_by),
        "findings": [asdict(finding) for finding in found.findings],
        "withdrawal": None
        if found.withdrawal is None
        else {k: v for k, v in asdict(found.withdrawal).items() if k not in ("log", "topic", "log_id", "partition")},
    }


def segment_fields(lake: str, segment: Segment, held: bool | None = None) -> dict[str, Any]:
    """A segment: where it is stored, and where it was taken from."""
    from spark_jobs.lake.segments.archived_batch import is_held

    return {
        **_named(segment, "segment_id", "base_offset", "next_offset", "size", "digest", "generation"),
        "archive_file": segment.local_path(lake),
        "archive_start": segment.start,
        "held": is_held(lake, segment) if held is None else held,
        **_named(segment, "origin_file", "origin_position", "retired_ms", "retired_because", "replaced_by"),
    }


def _commit_fields(commit: Commit | None) -> dict[str, Any] | None:
    return None if commit is None else _named(commit, "version", "timestamp_ms", "operation", "run_id")


def _named(of: object, *names: str) -> dict[str, Any]:
    return {name: getattr(of, name) for name in names}


# --- for a person -----------------------------------------------------------------------------------------------------


def _text(line: dict[str, Any]) -> Iterator[str]:
    from spark_jobs.lake.segments.removals import WHY_GONE

    head = f"{line['topic']}-{line['partition']} offset {line['offset']}  log {line['log']}"
    yield f"{head}  {'in the table' if line['in_table'] else 'not in the table: ' + line['explanation']}"
    for problem in line["problems"]:
        yield f"  DAMAGE     {problem}"
    if (row := line["row"]) is not None:
        yield f"  row        file {row['file']}{_said(' ', row, 'transaction_state')}"
    yield from _commit_text(line)
    if (ledger := line["ledger"]) is not None:
        published = "published" if ledger["published"] else "not published"
        span = f"[{ledger['start_offset']}, {ledger['end_offset']})"
        withdrawn = ", withdrawn" if ledger["withdrawn"] else ""
        gone = WHY_GONE.get(ledger["archived"], "held by the archive")
        yield f"  ledger     {span} {ledger['state']} ({ledger['evidence']}), {published}{withdrawn}; {gone}"
    if (batch := line["batch"]) is not None:
        crc = f"crc {batch['crc']:#010x}" + ("" if batch["crc_ok"] else f", computed {batch['crc_computed']:#010x}")
        text = f"offsets [{batch['base_offset']}, {batch['last_offset'] + 1}), {batch['size']} bytes, v{batch['magic']}"
        yield f"  batch      {text}, {batch['codec']}, {crc} {'holds' if batch['crc_ok'] else 'DOES NOT HOLD'}"
        yield f"             producer {batch['producer_id']} epoch {batch['producer_epoch']}, " + (
            f"sequence {batch['base_sequence']}, leader epoch {batch['leader_epoch']}"
        )
    if (segment := line["segment"]) is not None:
        yield from _segment_text("segment", segment, batch)
    for successor in line["successors"]:
        yield from _segment_text("replaced by", successor, None)
    for finding in line["findings"]:
        where = "" if finding["file"] is None else f"{finding['file']}, position {finding['position']}: "
        yield f"  finding    {finding['severity']} {finding['rule']}: {where}{finding['message']}"


def _commit_text(line: dict[str, Any]) -> Iterator[str]:
    said = None
    for name in ("commit", "published_by"):
        if (commit := line[name]) is not None and commit["version"] != said:
            word = "version" if name == "commit" else "first in"
            yield f"  {word:<10} {commit['version']}{_at(commit['timestamp_ms'])}, {_by(commit)}"
            said = commit["version"]


def _segment_text(word: str, segment: dict[str, Any], batch: dict[str, Any] | None) -> Iterator[str]:
    at = "" if batch is None else f" position {batch['archive_position']}"
    gone = "" if segment["held"] else " (gone)"
    retired = ""
    if segment["retired_ms"] is not None:
        why = f", {segment['retired_because']}" if segment["retired_because"] else ""
        retired = f", retired{_at(segment['retired_ms'])}{why}"
    span = f"[{segment['base_offset']}, {segment['next_offset']})"
    yield f"  {word:<10} {segment['segment_id']} {span} {segment['size']} bytes{retired}"
    yield f"             archived {segment['archive_file']}{at}{gone}"
    if not segment["generation"]:
        there = segment["origin_position"] if batch is None else batch["origin_position"]
        yield f"             from {segment['origin_file']} position {there}"


def _log_text(line: dict[str, Any]) -> Iterator[str]:
    name = f"{line['topic']}-{line['partition']}"
    yield f"{name}  log {line['log']}  [{line['start_offset']}, {line['end_offset']})  {line['rows']:,} rows"
    for segment in line["segments"]:
        if "size" not in segment:
            yield f"  segment    {segment['segment_id']}: not in the table segments"
            continue
        yield from _segment_text("segment", segment, None)
        span = f"offsets [{segment['first_offset']}, {segment['last_offset'] + 1})"
        yield f"             {segment['rows']:,} rows, {span}, sha256 {segment['digest']}"


def _summary_text(line: dict[str, Any]) -> str:
    kind = "" if line["data_change"] else ", the same rows in other files"
    removed = "an unknown number of" if line["rows_removed"] is None else f"{line['rows_removed']:,}"
    lines = [
        f"version {line['version']}{_at(line['timestamp_ms'])}, {line['operation']}, {_by(line)}{kind}",
        f"  added      {line['rows_added']:,} rows in {line['files_added']:,} files",
        f"  removed    {removed} rows in {line['files_removed']:,} files",
    ]
    lines += [f"  gone since {path}" for path in line["files_gone"]]
    lines += [f"  {name} = {number}" for name, number in line["application_ids"].items()]
    return "\n".join(lines) + "\n"


def _lines(lines: Iterator[str]) -> str:
    return "".join(f"{shown(line)}\n" for line in lines)


def _said(before: str, fields: dict[str, Any], name: str) -> str:
    return "" if fields[name] is None else f"{before}{name.replace('_', ' ')} {fields[name]}"


def _by(commit: dict[str, Any]) -> str:
    return "by another program" if commit["run_id"] is None else f"run {commit['run_id']}"


def _at(time_ms: int | None) -> str:
    return "" if time_ms is None else f" at {time_text(time_ms)}"
