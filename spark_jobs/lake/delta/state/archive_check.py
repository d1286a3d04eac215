"""The cheap check of the archive: each file that a row of ``segments`` names is there, with its size and time.

A time is a hint. Of a file with another time than expected, as in a lake that was copied or unpacked, the bytes are
read once: if they are those that were archived, ``tables.json`` records the new time.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from logcore.logs.model.findings import Finding, found
from spark_jobs.errors import TableUnreadable
from spark_jobs.lake.delta.state.counted_findings import counted_findings
from spark_jobs.lake.delta.state.tables_file import TablesFile, read_state
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.store import mapped_file, storage
from spark_jobs.lake.store.referenced_bytes import is_in_log_directory, lost_bytes

_JOINED = "merged"
"""Why a slice was retired that was joined. Nothing needs its file, and a watch leaves very many."""


@dataclass(frozen=True, slots=True)
class ArchiveSeen:
    """The files of the archive as they are now."""

    findings: tuple[Finding, ...] = ()
    times: Mapping[str, int] = field(default_factory=dict)
    """What ``TablesFile.archive`` is from now on."""
    has_other_times: bool = False
    """Whether bytes were read, because of their files' times, and were right."""


def check_archive(lake: str) -> tuple[Finding, ...]:
    """The part of ``harm.cheap_check`` that is about files of the archive."""
    return look_at_files(lake, read_state(lake)).findings


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


def look_at_files(lake: str, state: TablesFile) -> ArchiveSeen:
    """Compare the archive's files with ``segments``. Files at their source only have to be there, with all bytes."""
    segments = _segments(lake)
    lost = [finding for finding, _ in _lost_at_source(segments)]
    gone = tuple(counted_findings(lost, lambda finding: finding, _more_at_source))
    kept = [segment for segment in segments if not storage.is_absolute(segment["path"])]
    if not kept:
        return ArchiveSeen(gone)
    listed = present_files(lake, [segment["path"] for segment in kept], storage.join(lake, "archive"))
    harmed: list[_Harmed] = []
    times: dict[str, int] = {}
    has_other_times = False
    for segment in kept:
        path, file = segment["path"], listed.get(segment["path"])
        # A local file has its source's time, unless the lake was copied; a store sets its own.
        placed = state.archive.get(path, None if storage.is_remote(lake) else segment["modified_ms"])
        what = _harm(lake, segment, file, placed)
        if what is not None:
            harmed.append((*what, segment))
            times |= {path: state.archive[path]} if path in state.archive else {}
        elif file is not None and (storage.is_remote(lake) or file.modified_ms != segment["modified_ms"]):
            times[path] = file.modified_ms
            has_other_times |= placed not in (None, file.modified_ms)
    return ArchiveSeen((*gone, *_findings(lake, harmed)), times, has_other_times)


def names_lost_at_source(lake: str) -> dict[tuple[str, str | None], tuple[str, ...]]:
    """Return the names of all files of each finding about registered files, by its rule and its file."""
    return {(finding.rule, finding.file): names for finding, names in _lost_at_source(_segments(lake))}


def _segments(lake: str) -> list[Mapping[str, Any]]:
    columns = ["segment_id", "topic", "partition", "base_offset", "next_offset", "path", "start", "size"]
    columns += ["digest", "modified_ms", "retired_ms", "deleted_ms", "etag"]
    where: list[tuple[str, str, object]] = [("deleted_ms", "is_null", True), ("retired_because", "not in", [_JOINED])]
    try:
        segments = read_rows(lake, "segments", columns, where).to_pylist()
    except TableUnreadable:
        return []  # the table's own finding
    return sorted(segments, key=lambda segment: (segment["topic"], segment["partition"], segment["base_offset"]))


def _lost_at_source(segments: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Finding, tuple[str, ...]]]:
    """One finding a log for files of its source's directory that are registered and gone, and one for those that are
    shorter than they were; each with the names of the files.
    """
    registered: dict[tuple[str, int, str], list[Mapping[str, Any]]] = {}
    for segment in segments:
        path = segment["path"]
        if segment["retired_ms"] is None and is_in_log_directory(path, segment["etag"]):
            place = segment["topic"], segment["partition"], posixpath.dirname(path)
            registered.setdefault(place, []).append(segment)
    for (topic, partition, directory), mine in registered.items():
        ends: dict[str, int] = {}
        for each in mine:
            name = posixpath.basename(each["path"])
            ends[name] = max(ends.get(name, 0), each["start"] + each["size"])
        gone, short = lost_bytes(directory, ends)
        for rule, names, what in (
            ("archive-file-missing", gone, "gone there"),
            ("archive-file-changed", short, "shorter there than they were"),
        ):
            lost = [each for each in mine if posixpath.basename(each["path"]) in names]
            if lost:
                finding = found(
                    rule,
                    f"{topic}-{partition}: {len(lost):,} of {len(mine):,} segments that are registered in {directory} "
                    f"are {what}",
                    file=lost[0]["path"],
                    start_offset=lost[0]["base_offset"],
                    end_offset=lost[-1]["next_offset"],
                )
                yield finding, tuple(sorted(names))


def _more_at_source(rest: Sequence[Finding]) -> Finding:
    """The finding that counts the rest. It has the first file, so that the advice is about this one."""
    logs = {posixpath.dirname(finding.file or "") for finding in rest}
    message = f"{len(logs):,} more logs have registered files that are gone at their source, or shorter than they were"
    return found(rest[0].rule, message, file=rest[0].file)


_Harmed = tuple[str, str, Mapping[str, Any]]
"""Rule, what is wrong, and the segment."""


def _findings(lake: str, harmed: Sequence[_Harmed]) -> Iterator[Finding]:
    def of_segment(each: _Harmed) -> Finding:
        rule, what, segment = each
        return found(
            rule,
            f"{segment['topic']}-{segment['partition']}: the archived segment {segment['path']} {what}",
            file=storage.join(lake, segment["path"]),
            start_offset=segment["base_offset"],
            end_offset=segment["next_offset"],
        )

    def of_rest(rest: Sequence[_Harmed]) -> Finding:
        message = f"{len(rest)} more files of the archive are missing or changed"
        return found(rest[0][0], message, file=storage.join(lake, "archive"))

    return counted_findings(harmed, of_segment, of_rest)


def _harm(
    lake: str, segment: Mapping[str, Any], file: storage.StoredFile | None, placed: int | None
) -> tuple[str, str] | None:
    """The rule and what is wrong with a file; ``placed`` is its expected time."""
    end = segment["start"] + segment["size"]
    if file is None:
        # The file of a retired segment is deleted before its row records it.
        return None if segment["retired_ms"] is not None else ("archive-file-missing", "is not there")
    if file.size != end:
        return "archive-file-changed", f"has {file.size} bytes and was placed with {segment['size']}"
    if placed in (None, file.modified_ms) or _digest(file, segment["start"], end) == segment["digest"]:
        return None
    return "archive-file-changed", "has other bytes than those that were archived: sha256 differs"


@lru_cache(maxsize=1 << 16)
def _digest(file: storage.StoredFile, start: int, end: int) -> str:
    """A run looks at a file up to three times, and reads it once."""
    return mapped_file.digest_of(file.path, start, end)
