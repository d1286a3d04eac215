"""Archived files: each exists, has the recorded size and digest, and its content gives the recorded validation.

A segment that was corrupt at ingest is no new finding: its bytes must be the same, and validation must give the same
result. Quarantined bytes are compared with the bytes of the archive at the same positions.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from logcore.errors import LogError
from logcore.logs.checks.validation import SegmentVerdict
from logcore.logs.model.log_selection import LogSelection
from logcore.logs.rules.advice import maintain_command
from logcore.remote.chunked.chunk_map import RegisteredObject, unpacked
from logcore.segments.filenames import PRODUCER_SNAPSHOT_SUFFIX
from logcore.segments.scanning.scan import Stretch
from logcore.storage.remote_tier.chunked_segment import is_chunked_segment, read_manifest
from logcore.storage.source_errors import shown
from logcore.texts import sentences
from spark_jobs.archived_rows.segment_pass import QUARANTINE_ROW_BYTES, checked_again
from spark_jobs.errors import StorageError
from spark_jobs.lake.delta.tables.snapshots import read_rows
from spark_jobs.lake.segments.archive import GENERATION_INGESTED, Segment, stem_of
from spark_jobs.lake.segments.log_directory import SIDE_SUFFIXES, side_file
from spark_jobs.lake.segments.validations import RULES_VERSION, ValidationCounts
from spark_jobs.lake.store import mapped_file, storage
from spark_jobs.lake.store.referenced_bytes import (
    NotReachable,
    is_damage,
    is_in_log_directory,
    key_evidence,
    stored_objects,
    stored_size,
    way_back,
)
from spark_jobs.lake_verification.state import StateTables, of_log, way_out
from spark_jobs.lake_verification.verified_thing import (
    LISTED,
    DataUnreadable,
    Thing,
    ThingCounts,
    ThingResult,
    finding,
    identity_of,
    readable,
    stored_as,
)
from spark_jobs.placed_finding import PlacedFinding

ARCHIVE = "archive"


def archive_things(state: StateTables, selection: LogSelection) -> Iterator[Thing]:
    """Yield every segment of the chosen logs whose file must exist."""
    shared = Counter(segment.path for segment in state.segments if segment.deleted_ms is None)
    vanished: dict[tuple[str, str], list[Segment]] = {}
    for segment in state.segments:
        if not segment.is_kept or not selection.matches(segment.topic, segment.partition):
            continue
        directory = storage.directory_of(segment.path)
        if is_in_log_directory(segment.path, segment.etag) and not os.path.lexists(directory):
            vanished.setdefault((segment.log, directory), []).append(segment)
            continue
        yield Thing(
            name=f"archive/{segment.segment_id}",
            identity=_identity(state, segment),
            size=segment.size,
            verify=ArchivedFile(
                state.lake,
                segment,
                state.validations.get(segment.segment_id),
                is_shared=shared[segment.path] > 1,
                has_quarantine="quarantine" not in state.unreadable,
            ).verify,
        )
    for (log, directory), segments in vanished.items():
        gone = ThingResult([_vanished(directory, segments)], ThingCounts(archive_files=len(segments)))
        ids = identity_of([each.segment_id for each in segments])
        yield Thing(f"archive/{log}/{directory}", ids, 0, partial(ThingResult, gone.findings, gone.counts))


def _vanished(directory: str, segments: Sequence[Segment]) -> PlacedFinding:
    """One finding for all segments of a log that were registered in a directory that is gone."""
    first, end = segments[0], max(segment.next_offset for segment in segments)
    start = min(segment.base_offset for segment in segments)
    text = (
        f"{first.topic}-{first.partition}, archived offsets [{start}, {end}): {len(segments):,} segments were "
        f"registered in {directory}, and this directory is gone. {way_back(directory)}"
    )
    place: dict[str, Any] = {"table": "segments", "file": directory, "start_offset": start, "end_offset": end}
    return finding("archive-file-missing", text, **of_log(first), **place)


def _identity(state: StateTables, segment: Segment) -> str:
    there: object
    try:
        there = [stored_as(path) for path in stored_objects(segment.local_path(state.lake))]
    except StorageError as error:
        if not segment.lies_at_source:
            raise
        there = str(error)
    return identity_of(there, asdict(segment), state.validations.get(segment.segment_id))


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """The file of a segment, and what is recorded about it."""

    lake: str
    segment: Segment
    validated: Mapping[str, Any] | None
    """Its row of ``validations``."""
    is_shared: bool
    """Whether other segments lie in the same file, so that the file may continue after this one."""
    has_quarantine: bool
    """Whether the table ``quarantine`` can be read."""

    def verify(self) -> ThingResult:
        """Read the file once."""
        segment = self.segment
        path = segment.local_path(self.lake)
        result = ThingResult(counts=ThingCounts(archive_files=1))
        place = _Place(segment, path)
        try:
            size = stored_size(path) if segment.lies_at_source else storage.stat(path).size
        except NotReachable as error:
            return _not_checked(place, str(error))
        except (FileNotFoundError, NotADirectoryError) as error:
            whose = "It is gone."
            if segment.lies_at_source:
                what = "It" if error.args == (path,) else f"Its manifest {shown(str(error))}"
                whose = f"{what} was registered at its source and is gone there."
            result.findings.append(place.finding("archive-file-missing", f"{whose} {place.way_out}"))
            return result
        end = segment.start + segment.size
        may_go_on = segment.lies_at_source or self.is_shared
        if size is not None and (size < end or (size > end and not may_go_on)):
            message = f"It has {size} bytes instead of {end}. {place.way_out}"
            result.findings.append(place.finding("archive-file-changed", message))
            if size < end:
                return result
        result.counts.archive_bytes = segment.size
        if not segment.size:
            return result
        try:
            registered = segment.registered
            is_of_manifest = registered is None or _is_of_manifest(path, registered.chunk_map)
            if registered is not None and not is_of_manifest:
                registered = RegisteredObject(registered.etag)
            with (
                mapped_file.mapped(
                    path, segment.start, end, at_source=segment.lies_at_source, registered=registered
                ) as mapped,
                memoryview(mapped) as whole,
                whole[segment.start : end] as content,
            ):
                digest = hashlib.sha256(content).hexdigest()
                if digest != segment.digest:
                    result.findings.append(_changed(place, content))
                    return result
                if not is_of_manifest:  # and the manifest is right
                    message = "Its chunk map in the table segments is not that of its manifest."
                    message = f"{message} {way_out(self.lake, 'segments')}"
                    result.findings.append(place.finding("rows-differ-from-archive", message))
                result.findings += _validation_findings(self, place, content)
        except LogError as error:
            if not segment.lies_at_source:
                raise
            has_other_key, why = key_evidence(path, error, segment.chunk_map)
            if not is_damage(error) and not has_other_key:
                return _not_checked(place, sentences([str(error), why]))
            what = why if has_other_key else error.message
            message = f"It was registered at its source, and has changed there: {what}. {place.way_out}"
            result.findings.append(place.finding("archive-file-changed", message))
        return result


def _is_of_manifest(path: str, chunk_map: bytes | None) -> bool:
    """Whether a registered chunk map, if there is one, says what the manifest of the object says.

    Raises:
        SourceUnreadable: The manifest cannot be read.
    """
    if chunk_map is None or not is_chunked_segment(path):
        return True
    manifest = read_manifest(path)
    try:
        return unpacked(chunk_map).manifest == manifest
    except LogError:
        return False


class _Place:
    """How findings name a segment."""

    def __init__(self, segment: Segment, path: str) -> None:
        self.segment, self.path = segment, path

    @property
    def way_out(self) -> str:
        """How bytes at their source come back. A lake has no copy of them, and writes nothing there.

        Empty for a file of the archive: the advice of the rule is the right one.
        """
        if not self.segment.lies_at_source:
            return ""
        if self.segment.etag is None:
            what = "bytes"
        else:
            what = "bytes and ETag" if storage.is_remote(self.path) else "bytes and modification time (`cp -p`)"
        return f"Put it back at its source with the same {what}, or take the log again into a new lake."

    def finding(self, rule: str, message: str, **place: Any) -> PlacedFinding:
        segment = self.segment
        given: dict[str, Any] = {
            "table": "segments",
            "file": self.path,
            "start_offset": segment.base_offset,
            "end_offset": segment.next_offset,
        } | place
        name = f"{segment.topic}-{segment.partition}"
        text = f"{name}, archived offsets [{segment.base_offset}, {segment.next_offset}): {message}"
        return finding(rule, text, **of_log(segment), **given)


def _not_checked(place: _Place, why: str) -> ThingResult:
    """The result for bytes at their source that cannot be read now. They are not counted."""
    message = f"It was registered at its source, which cannot be read now, so it was not checked: {why}"
    return ThingResult([place.finding("archive-not-checked", message)])


def _changed(place: _Place, content: memoryview) -> PlacedFinding:
    """Report another digest, with the first position without a good batch: it helps to see what happened."""
    stretches = _stretches(place.segment, content)[1]
    where = {}
    if stretches:
        first = stretches[0]
        where = {"position": place.segment.start + first.position, "nbytes": sum(each.size for each in stretches)}
    message = f"Its bytes are not those that were archived: sha256 differs. {place.way_out}".rstrip()
    return place.finding("archive-file-changed", message, **where)


def _stretches(segment: Segment, content: memoryview) -> tuple[SegmentVerdict, list[Stretch]]:
    validated = checked_again(segment, content)
    return validated, [item for item in validated if isinstance(item, Stretch)]


def _validation_findings(recorded: ArchivedFile, place: _Place, content: memoryview) -> Iterator[PlacedFinding]:
    """Validate the batches again: the result must be the recorded one."""
    segment = place.segment
    try:
        validated, stretches = _stretches(segment, content)
    except LogError as error:
        yield place.finding("archive-file-changed", f"Its batches cannot be read: {error}. {place.way_out}")
        return
    said = recorded.validated
    if said is None:
        if segment.generation != GENERATION_INGESTED and stretches:
            first = stretches[0]
            message = (
                f"A cleaned segment has bytes that are no batch ({first.reason}): {first.message}. {place.way_out}"
            )
            yield place.finding("archive-file-changed", message, position=segment.start + first.position)
        return
    if said["rules_version"] == RULES_VERSION:
        found = ValidationCounts.of(validated, said["findings"]).row(segment, said["as_of_ms"])
        differing = {name: (said[name], value) for name, value in found.items() if said[name] != value}
        if differing:
            differences = ", ".join(f"{name} {before} instead of {now}" for name, (before, now) in differing.items())
            message = f"The table validations has {differences}. {way_out(recorded.lake, 'validations')}"
            yield place.finding("rows-differ-from-archive", message, table="validations")
    if segment.generation == GENERATION_INGESTED:
        yield from _quarantined(recorded, place, stretches, content)


def _quarantined(
    recorded: ArchivedFile, place: _Place, stretches: list[Stretch], content: memoryview
) -> Iterator[PlacedFinding]:
    """Check that the rows of ``quarantine`` have the damaged bytes of the archive."""
    segment = place.segment
    said = recorded.validated
    if not recorded.has_quarantine or not (stretches or (said and (said["quarantined_bytes"] or said["tail_bytes"]))):
        return
    try:
        with readable():
            rows = read_rows(recorded.lake, "quarantine", where=[("segment_id", "==", segment.segment_id)]).to_pylist()
    except (DataUnreadable, FileNotFoundError):
        return  # the verification of the table's files reports it
    wanted = [
        (position, min(QUARANTINE_ROW_BYTES, stretch.end - position))
        for stretch in stretches
        for position in range(stretch.position, stretch.end, QUARANTINE_ROW_BYTES)
    ]
    held = sorted((row["position"], row["size"]) for row in rows)
    other = [row for row in rows if bytes(content[row["position"] : row["position"] + row["size"]]) != row["bytes"]]
    if held == sorted(wanted) and not other:
        return
    at = other[0]["position"] if other else next(iter({p for p, _ in {*held} ^ {*wanted}}), None)
    message = (
        f"The table quarantine has {len(rows)} rows of its damaged bytes instead of {len(wanted)}"
        f"{f', {len(other)} of them with other bytes' if other else ''}. {way_out(recorded.lake, 'quarantine')}"
    )
    where = {} if at is None else {"position": segment.start + at}
    yield place.finding("rows-differ-from-archive", message, table="quarantine", **where)


def stray_files(state: StateTables) -> ThingResult:
    """Report files below ``archive/`` that no row of ``segments`` names, and that are no index files of a segment."""
    if "segments" not in state.tables:
        return ThingResult()  # without its rows each file looks like a stray one
    named = set()
    stems = set()
    for segment in state.segments:
        if segment.deleted_ms is None and not segment.lies_at_source:
            named |= {segment.path, *(side_file(segment.path, suffix) for suffix in SIDE_SUFFIXES)}
            stems.add(stem_of(segment.path))
    strays = []
    for file in storage.files_below(storage.join(state.lake, ARCHIVE)):
        path = storage.relative(file.path, state.lake)
        is_snapshot = path.endswith(PRODUCER_SNAPSHOT_SUFFIX) and stem_of(path) in stems
        if path not in named and not is_snapshot:
            strays.append(path)
    if not strays:
        return ThingResult()
    listed = ", ".join(sorted(strays)[:LISTED]) + (" and so on" if len(strays) > LISTED else "")
    message = (
        f"{len(strays)} files in the archive belong to no segment: {listed}. They do no harm; "
        f"`{maintain_command(state.lake)} --apply` removes them when they are old enough."
    )
    return ThingResult([finding("stray-archive-file", message, file=storage.join(state.lake, ARCHIVE))])
