"""The cheap check of the archive: each file that a row of ``segments`` names is there, with its size and time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from logcore.logs.model.findings import Finding, found
from spark_jobs.lake.delta.state.tables_file import TablesFile, read_state
from spark_jobs.lake.delta.tables.table_rows import read_rows
from spark_jobs.lake.errors import TableUnreadable
from spark_jobs.lake.store import storage

FINDINGS_A_TABLE = 20
"""At most this many files or commits of a table, or files of the archive, are named; the rest is counted."""

_JOINED = "merged"
"""Why a slice was retired that was joined. Nothing needs its file, and a watch leaves very many."""


def check_archive(lake: str) -> tuple[Finding, ...]:
    """The part of ``table_checks.cheap_check`` that is about files of the archive."""
    return tuple(archive_findings(lake, read_state(lake)))


def present_files(root: str, paths: Iterable[str], listed: str) -> dict[str, storage.StoredFile]:
    """Return those files that are there, by path relative to ``root``.

    On a local disk each is looked up: in a watched lake many more files are there that no row names any more. Of an
    object store the directory ``listed`` is listed.
    """
    if storage.is_remote(root):
        return {storage.relative(file.path, root): file for file in storage.files_below(listed)}
    present: dict[str, storage.StoredFile] = {}
    for path in paths:
        with suppress(FileNotFoundError, NotADirectoryError):
            present[path] = storage.stat(storage.join(root, path))
    return present


def archive_findings(lake: str, state: TablesFile) -> Iterator[Finding]:
    """Compare the archive's files with ``segments``, except those that are registered at their source."""
    columns = ["segment_id", "topic", "partition", "base_offset", "next_offset", "path", "start", "size"]
    columns += ["modified_ms", "retired_ms", "deleted_ms"]
    where: list[tuple[str, str, object]] = [("deleted_ms", "is_null", True), ("retired_because", "not in", [_JOINED])]
    try:
        segments = read_rows(lake, "segments", columns, where).to_pylist()
    except TableUnreadable:
        return  # the table's own finding
    kept = [segment for segment in segments if not storage.is_absolute(segment["path"])]
    kept.sort(key=lambda segment: (segment["topic"], segment["partition"], segment["base_offset"]))
    if not kept:
        return
    root = storage.join(lake, "archive")
    listed = present_files(lake, [segment["path"] for segment in kept], root)
    harmed = list(_harmed(lake, kept, listed, state))
    for rule, segment, what in harmed[:FINDINGS_A_TABLE]:
        yield found(
            rule,
            f"{segment['topic']}-{segment['partition']}: the archived segment {segment['path']} {what}",
            file=storage.join(lake, segment["path"]),
            start_offset=segment["base_offset"],
            end_offset=segment["next_offset"],
        )
    if len(harmed) > FINDINGS_A_TABLE:
        more = len(harmed) - FINDINGS_A_TABLE
        yield found(harmed[FINDINGS_A_TABLE][0], f"{more} more files of the archive are missing or changed", file=root)


def _harmed(
    lake: str,
    segments: Iterable[Mapping[str, Any]],
    listed: Mapping[str, storage.StoredFile],
    state: TablesFile,
) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    for segment in segments:
        file = listed.get(segment["path"])
        if file is None:
            # The file of a retired segment is deleted before its row records it.
            if segment["retired_ms"] is None:
                yield "archive-file-missing", segment, "is not there"
        elif file.size != segment["start"] + segment["size"]:
            yield "archive-file-changed", segment, f"has {file.size} bytes and was placed with {segment['size']}"
        else:
            # A local file has its source's time; a store sets its own, which the last run recorded.
            placed = state.archive.get(segment["path"]) if storage.is_remote(lake) else segment["modified_ms"]
            if placed is not None and file.modified_ms != placed:
                yield (
                    "archive-file-changed",
                    segment,
                    f"was changed at {file.modified_ms} and placed with the time {placed}; "
                    f"loglake verify {lake} says whether its bytes are the same",
                )
