"""Copy one source segment into the archive: stat, read, stat; cut at the last certain byte; digest; rename.

Runs in a worker. The source is opened for reading only. In a segment that is still being written, nothing after its
last valid CRC is copied: it may be a partial write. A sealed segment is copied whole, including damage, which
validation reports.
Preallocated space costs neither time nor disk: where the source has holes or zeros the copy has holes. Sectors that the
disk fails to read twice become zeros in the archive, so that the batches before and after them are archived. A finding
reports them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace

from logcore.columns.engines import segment_reading
from logcore.errors import LogError
from logcore.logs.model.findings import Finding, found
from logcore.reading.segment_reading import stretch_finding
from logcore.records.batch import HEADER_SIZE
from logcore.records.packed_files import packed_kind, unpacking
from logcore.remote.chunked.chunk_map import RegisteredObject
from logcore.remote.stored_part import file_version
from logcore.segments.scanning.scan import ScannedBatch, SegmentScan, Stretch, last_good_end
from logcore.storage.discovery import HeaderReader, SegmentFile, SourceChanged, copy_range
from logcore.storage.objects.addresses import is_object
from logcore.storage.objects.object_copy import copy_object, copy_parts
from logcore.storage.objects.object_reads import PART_BYTES, ObjectVersion
from logcore.storage.objects.remembered_reads import RememberedRead, RememberedReads
from logcore.storage.opened_source import open_source, open_stored
from logcore.storage.remote_tier.chunked_segment import ChunkedSegment, is_chunked_segment
from logcore.storage.source_bytes import SourceBytes
from logcore.storage.source_errors import SourceUnreadable, shown
from spark_jobs.engine.executor import synced_late
from spark_jobs.lake.segments import archive
from spark_jobs.lake.segments.archive import LogRow, Segment
from spark_jobs.lake.store import local_copies, mapped_file, storage
from spark_jobs.reads import Reads

PROBE_BYTES = 1 << 20
FIRST_PROBE_BYTES = 1 << 16
_MOST_HEADER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class CopyTask:
    """A byte range of one file, from ``start`` to ``end`` or the file's end."""

    lake: str
    log: str
    topic: str
    log_id: str
    partition: int
    source: str
    file_base_offset: int
    start: int
    first_offset: int
    """Next offset expected at ``start``."""
    sealed: bool
    next_base_offset: int | None
    """Base offset of the source segment that follows a sealed one."""
    modified_ms: int
    size: int
    """Bytes of the source file when it was last examined."""
    in_place: bool
    """Register the bytes at their source instead of copying them."""
    end: int | None = None
    """Position after the last byte; None: the end of the file when it is opened."""
    etag: str | None = None
    """Of a source on an object store: names the content that was listed. None for other files."""
    is_remote: bool = False
    """Whether it is a segment in remote storage. Such a file was complete when it got its name."""
    chunk_map: bytes | None = field(default=None, repr=False)
    """What the manifest of a segment in chunks says; None: it has to be read."""

    @classmethod
    def of(cls, lake: str, log: LogRow, file: SegmentFile, *, in_place: bool) -> CopyTask:
        """Return the copy of a whole segment whose last offset is not known."""
        return cls(
            lake=lake,
            log=log.log,
            topic=log.topic,
            log_id=log.log_id,
            partition=log.partition,
            source=file.path,
            file_base_offset=file.base_offset,
            start=0,
            first_offset=file.base_offset,
            sealed=False,
            next_base_offset=None,
            modified_ms=file.modified_ms,
            size=file.size,
            in_place=in_place,
            etag=file.etag,
            chunk_map=file.chunk_map,
        )

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return Reads(f"{self.topic}-{self.partition}", self.source, self.start, self.end)

    @property
    def file(self) -> SegmentFile:
        """The source file when it was examined."""
        base, source = self.file_base_offset, self.source
        return SegmentFile(base, source, self.size, self.modified_ms, 0, etag=self.etag, chunk_map=self.chunk_map)

    @property
    def registered(self) -> RegisteredObject | None:
        """The object that is to be registered; None for other files."""
        return None if self.etag is None else RegisteredObject(self.etag, self.chunk_map)

    @property
    def seen(self) -> str:
        """Identity of the source file when it was examined. A changed file has another text."""
        return " ".join([self.source, str(self.size), str(self.modified_ms), *([self.etag] if self.etag else [])])

    @property
    def bytes_to_read(self) -> int:
        """Size of the range, as far as it is known."""
        return (self.size if self.end is None else self.end) - self.start


@dataclass(frozen=True, slots=True)
class CopyResult:
    """The result of a copy."""

    segment: Segment | None = None
    """None if there was nothing to copy."""
    findings: tuple[Finding, ...] = ()
    failed: bool = False
    """Whether the copy failed; the last finding says why."""
    last_header: tuple[RememberedRead, ...] = ()
    """Of a source on an object store: the bytes of its last batch that the next plan compares, if they are few."""


class _Refused(Exception):
    """Nothing of the file is taken; the finding says why."""

    def __init__(self, why: Finding) -> None:
        super().__init__(why.message)
        self.why = why


def nothing_readable(task: CopyTask, remembered: RememberedReads | None = None) -> list[Finding] | None:
    """Check in the driver, from its first bytes, whether an unsealed segment has nothing to copy yet.

    Args:
        task: The copy.
        remembered: Small reads of objects by earlier runs; None: none.

    Returns:
        None if there may be something to copy; otherwise the findings about the bytes that wait there.
    """
    if task.sealed:
        return None
    try:
        with closing(open_source(task.source, task.file, remembered)) as file:
            size = file.size
            if size <= task.start:
                return []
            if _begins_with_a_batch(task, file.read(FIRST_PROBE_BYTES, task.start)):
                return None
            waiting = file.read(PROBE_BYTES, task.start)
        if last_good_end(waiting, task.first_offset)[2] is not None or (not task.start and packed_kind(waiting)):
            return None
        if size - task.start > PROBE_BYTES and _has_header(task, size, remembered):
            return None  # a first batch larger than the probe, or damage before other batches
    except (OSError, LogError):
        return None  # the worker meets the same error and reports it
    left = size - task.start
    findings = _tail_findings(task, waiting, 0, left, task.first_offset)
    if left > PROBE_BYTES and findings[-1].rule != "zero-padding":
        return None  # what a longer end is, all of its bytes show
    return None if _is_damage(findings) else findings


def begins_with_a_batch(task: CopyTask) -> bool:
    """Check in the driver whether a good batch is at the beginning of a copy. What cannot be read begins with none."""
    try:
        with closing(open_source(task.source, task.file)) as file:
            return _begins_with_a_batch(task, file.read(PROBE_BYTES, task.start))
    except (OSError, LogError):
        return False


def _begins_with_a_batch(task: CopyTask, content: bytes) -> bool:
    first = next(iter(SegmentScan(content, base_offset=task.first_offset, sealed=False, decode=False)), None)
    return isinstance(first, ScannedBatch)


def _has_header(task: CopyTask, size: int, remembered: RememberedReads | None) -> bool:
    """Whether the headers show a whole batch after ``start``."""
    headers = HeaderReader(remembered).headers(replace(task.file, size=size), task.start)
    return any(header is not None for _, header in headers)


@synced_late
def copy_segment(task: CopyTask) -> CopyResult:
    """Copy one segment. Copy again if its file changed during the copy."""
    is_growth = task.end is None  # replacement bytes must be complete, or are not copied
    for attempt in (1, 2):
        try:
            segment, findings, header = (
                _register(task) if task.in_place else _copy(task, reads_around=attempt == 2 and is_growth)
            )
            return CopyResult(segment, tuple(findings), failed=_is_damage(findings), last_header=header)
        except _Refused as refused:
            return _failed(refused.why)
        except SourceChanged as error:
            if attempt == 2:
                return _failed(found("source-changed", str(error), file=task.source))
        except LogError as error:
            if attempt == 2 or task.in_place or not is_growth:
                return _failed(found("unreadable", str(error), file=task.source, position=error.position))
        except OSError as error:
            # Errors of the source have their own type, so this one is an error of the archive.
            message = f"{task.source} could not be written to the archive: {error.strerror or error}."
            return _failed(found("archive-not-written", message, file=error.filename))
    raise AssertionError("unreachable")


def _copy(task: CopyTask, *, reads_around: bool) -> _Described:
    with storage.staged(storage.join(task.lake, archive.log_folder(task.log))) as copy:
        gone: tuple[tuple[int, int], ...] = ()
        sha256: str | None = None
        is_in_directory = task.is_remote and task.etag is None
        if is_in_directory:
            _version_of(task)
        if is_chunked_segment(task.source):
            end = task.size if task.end is None else task.end
            sha256 = _copied_from_chunks(task.file, task.start, end, copy.path)
        elif task.etag is not None:
            end = task.size if task.end is None else task.end
            sha256 = copy_object(task.source, task.start, end, copy.path, ObjectVersion.of(task.file))
        elif storage.is_remote(task.source):
            _fetch(task, copy.path)
        else:
            copied = copy_range(
                task.source,
                task.start,
                task.end,
                copy.path,
                sealed=task.sealed,
                is_summed=task.sealed,  # an active segment may end with a terabyte of reserved zeros
                reads_around=reads_around,
                is_synced=False,  # the file is synced when it is placed
            )
            gone, sha256 = copied.unreadable, copied.sha256
        if is_in_directory:
            _version_of(task)  # another file may have taken its name meanwhile
        segment, findings, header = _describe(task, copy.path, sha256=sha256)
        findings = [*(_unreadable(task, low, high, segment) for low, high in gone), *findings]
        if segment is None:
            return None, findings, ()
        os.truncate(copy.path, segment.size)
        is_stored_so = task.etag is not None and not is_chunked_segment(task.source)
        is_whole = is_stored_so and (task.start, segment.size) == (0, task.size)
        same = (task.source, ObjectVersion.of(task.file)) if is_whole else None
        # Keep the mtime: retention uses it where timestamps are missing.
        copy.place(storage.join(task.lake, segment.path), modified_ms=task.modified_ms, same=same)
        return segment, findings, header


def _fetch(task: CopyTask, destination: str) -> None:
    """Download the bytes of an archived segment of a lake on an object store. Such an object never changes."""
    with (
        mapped_file.mapped(task.source, task.start, task.end) as content,
        memoryview(content)[task.start : task.end] as wanted,
        open(destination, "xb") as file,
    ):
        file.write(wanted)


_Described = tuple[Segment | None, list[Finding], tuple[RememberedRead, ...]]


def _unreadable(task: CopyTask, low: int, high: int, segment: Segment | None) -> Finding:
    """Build the finding for bytes low..high of the source, which the disk failed to read."""
    is_taken = segment is not None and low < task.start + segment.size
    what = "The archive has zeros there, the batches around them are archived" if is_taken else "They are not archived"
    message = (
        f"The disk failed to read {high - low} bytes of {task.source} from position {low} on. {what}. Bring the file "
        "back from another replica, or name that one with --fill-from."
    )
    return found("unreadable", message, file=task.source, position=low, nbytes=high - low)


def _register(task: CopyTask) -> _Described:
    if task.is_remote and task.etag is None:
        task = replace(task, etag=_version_of(task))
    # Of an object the listing has the size. Its bytes must be those of the listing.
    is_whole_object = task.etag is not None and task.end is None
    return _describe(task, task.source, task.start, task.size if is_whole_object else task.end)


def _version_of(task: CopyTask) -> str:
    """The version of a file in a directory of remote storage, if it is still the one that was listed.

    Raises:
        SourceUnreadable: It is not there.
        SourceChanged: It is another one.
    """
    try:
        now = storage.stat(task.source)
    except FileNotFoundError as error:
        raise SourceUnreadable("it is not there.", file=shown(task.source)) from error
    is_stored_so = not is_chunked_segment(task.source)
    if now.modified_ms != task.modified_ms or (is_stored_so and now.size != task.size):
        raise SourceChanged("another file took its name since it was listed", file=shown(task.source))
    return file_version(now.size, now.modified_ms)


def _describe(
    task: CopyTask, path: str, start: int = 0, stop: int | None = None, sha256: str | None = None
) -> _Described:
    """Build the row of the bytes of ``path`` from ``start``, findings about the bytes after the last archived byte, and
    the header of the last batch, as the next plan reads it from an object.

    Args:
        task: The task.
        path: The file.
        start: Its first byte that counts.
        stop: The end of the bytes that count; None: the end of the file.
        sha256: Digest of all these bytes, if it is known; a part of them is digested again.
    """
    is_listed = task.in_place and (task.etag is not None or task.is_remote)
    if (task.start + task.bytes_to_read if is_listed else storage.stat(path).size) <= start:
        return None, [], ()
    with _opened(task, path, start, stop) as (content, fetched):
        # The CRC does not cover the base offset. Only the next segment shows that the last batch claims too many
        # offsets.
        reading = segment_reading()(content, task.first_offset, task.sealed, task.next_base_offset, fetched)
        next_offset, last, end = reading.next_offset, reading.last_batch, len(content)
        packed = None if task.start or last else packed_kind(content)
        if packed is not None:
            message = f"{shown(task.source)} is {packed}; {unpacking(packed, shown(task.source))}."
            raise _Refused(found("packed-segment", message, file=task.source, position=0, nbytes=task.size))
        findings: list[Finding] = []
        if not task.sealed:
            end = last.end if last else 0
            findings = _tail_findings(task, content, end, len(content) - end, next_offset, fetched)
            if last is None:
                return None, findings, ()
        elif task.next_base_offset is not None:
            findings = _spare_findings(task, content, last.end if last else 0, next_offset, fetched)
            if findings:
                end = last.end if last else 0
                if last is None:
                    return None, findings, ()
            next_offset = task.next_base_offset
        digest = sha256 if sha256 is not None and end == len(content) else _sha256(content, end, fetched)
        header = () if last is None else _last_header(task, content, fetched, last)
        if task.in_place and task.etag and start == 0 and (storage.is_remote(path) or is_chunked_segment(path)):
            local_copies.keep_registered(path, task.etag, content[:end])
    identity = archive.segment_id(task.log, task.first_offset, digest)
    in_place = task.in_place
    return (
        Segment(
            segment_id=identity,
            log=task.log,
            topic=task.topic,
            log_id=task.log_id,
            partition=task.partition,
            base_offset=task.first_offset,
            next_offset=next_offset,
            path=_name_in_place(path) if in_place else archive.segment_path(task.log, identity, task.first_offset),
            start=start if in_place else 0,
            size=end,
            sealed=task.sealed,
            digest=digest,
            modified_ms=task.modified_ms,
            max_timestamp=None if reading.max_timestamp < 0 else reading.max_timestamp,
            generation=archive.GENERATION_INGESTED,
            origin_file=task.source,
            origin_position=task.start,
            origin_base_offset=task.file_base_offset,
            last_batch_base_offset=last.header.base_offset if last else None,
            last_batch_epoch=last.header.partition_leader_epoch if last else None,
            last_batch_crc=last.header.crc if last else None,
            last_batch_size=last.size if last else None,
            last_batch_end=task.start + last.end if last else None,
            retired_ms=None,
            replaced_by=None,
            etag=(task.etag or None) if in_place else None,
            chunk_map=task.chunk_map if in_place and task.etag else None,
        ),
        findings,
        header,
    )


def _name_in_place(path: str) -> str:
    return path if storage.is_remote(path) else storage.absolute(path)


def _last_header(
    task: CopyTask, content: memoryview, fetched: SourceBytes | None, last: ScannedBatch
) -> tuple[RememberedRead, ...]:
    """The bytes of the last batch that `HeaderReader` reads: its header, and a compressed message of format v0 or v1
    whole.
    """
    is_few = not (last.header.is_wrapper and last.size > _MOST_HEADER_BYTES)
    if not task.etag or not is_few or not is_object(task.source) or is_chunked_segment(task.source):
        return ()
    start = last.end - last.size
    ends = [min(start + HEADER_SIZE, len(content)), *([last.end] if last.header.is_wrapper else [])]
    return tuple(
        RememberedRead(
            task.source,
            task.etag,
            task.start + start,
            task.start + end,
            bytes(content[start:end]) if fetched is None else fetched.read(start, end),
        )
        for end in ends
    )


@contextmanager
def _opened(task: CopyTask, path: str, start: int, stop: int | None) -> Iterator[tuple[memoryview, SourceBytes | None]]:
    """Open the bytes of a file from start to stop. Our own copy is read piece by piece, without its holes."""
    if task.in_place:
        with (
            mapped_file.mapped(path, start, stop, at_source=True, registered=task.registered) as mapped,
            memoryview(mapped)[start:stop] as content,
        ):
            yield content, None
        return
    source = SourceBytes(path, sealed=True)
    yield source.content, source


def _tail_findings(
    task: CopyTask,
    content: bytes | memoryview,
    end: int,
    left: int,
    next_offset: int,
    fetched: SourceBytes | None = None,
) -> list[Finding]:
    """Findings about the ``left`` bytes after ``end`` that were not archived, as the scan of `verify` sees them."""
    if left == 0:
        return []
    base, offset = task.file_base_offset, next_offset
    step = next(
        iter(SegmentScan(content, base_offset=base, sealed=False, start=end, next_offset=offset, fetched=fetched)), None
    )
    rule, position = "torn-tail", task.start + end
    what = (
        f"{left} bytes after the last whole batch of the active segment wait: a write in progress or one that was "
        "cut off. They are archived when they form a whole batch."
    )
    if step is None:
        rule = "zero-padding"
        what = f"{left} zero bytes end the active segment: room that a broker reserved, or a write that was lost."
    elif isinstance(step, Stretch) and not step.tail:
        rule, why = "tail-hides-batches", step.message if step.hides is None else step.hides
        what = f"{left} bytes from position {position} end the active segment and are no ordinary tail: {why}."
    return [found(rule, what, file=task.source, position=position, nbytes=left, start_offset=offset)]


def _spare_findings(
    task: CopyTask, content: memoryview, end: int, next_offset: int, fetched: SourceBytes | None
) -> list[Finding]:
    """Findings about the bytes after ``end`` of a closed segment if no offset can be in them; else none."""
    walk = SegmentScan(
        content,
        base_offset=task.file_base_offset,
        sealed=True,
        next_base_offset=task.next_base_offset,
        start=end,
        next_offset=next_offset,
        fetched=fetched,
    )
    step = next(iter(walk), None) if end < len(content) else None
    if not isinstance(step, Stretch) or not step.spare:
        return []
    return [replace(stretch_finding(step, task.source), position=task.start + end)]


def _is_damage(findings: Sequence[Finding]) -> bool:
    """Whether the bytes that were not archived are no write in progress, so that the log stops there."""
    return bool(findings) and findings[-1].rule == "tail-hides-batches"


def _sha256(content: memoryview, size: int, fetched: SourceBytes | None) -> str:
    """SHA-256 of the first ``size`` bytes."""
    digest = hashlib.sha256()
    for start in range(0, size, 8 << 20):
        end = min(start + (8 << 20), size)
        digest.update(content[start:end] if fetched is None else fetched.read(start, end))
    return digest.hexdigest()


def _failed(why: Finding) -> CopyResult:
    return CopyResult(findings=(why,), failed=True)


def _copied_from_chunks(file: SegmentFile, start: int, end: int, destination: str) -> str:
    """Copy bytes start..end of a segment that is stored in chunks into a new file, which is not synced to disk.

    On an error the file is removed.

    Args:
        file: The segment as it was listed; an object must still be that one.
        start: First byte.
        end: Exclusive end.
        destination: Path of the new file, which must not exist.

    Returns:
        The SHA-256 of the bytes, in hex.

    Raises:
        SourceUnreadable: The chunks cannot be read, decrypted or decompressed.
        SourceChanged: The object is another one than was listed, or the segment ends before `end`.
        OSError: The destination cannot be written.
    """
    with closing(ChunkedSegment(file.path, open_stored, file.etag, file.modified_ms, file.chunk_map)) as segment:
        if segment.size < end:
            message = f"bytes {start} to {end} of {segment.size} cannot be copied"
            raise SourceChanged(message, file=shown(file.path), position=start)
        # A chunk is decoded once if no part ends inside of it.
        chunk_size = segment.manifest.chunks.chunk_size
        part_bytes = max(1, PART_BYTES // chunk_size) * chunk_size
        digest = copy_parts(
            lambda low, high: memoryview(segment.read(high - low, low)), start, end, destination, part_bytes
        )
        segment.refuse_change(sealed=True)
    return digest
