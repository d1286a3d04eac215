"""The files of one partition directory, as a broker's start would see them.

`logcore.segments.startup` decides which files form the log, from their names and, for a cleaned segment that is not yet
in place, from its last offset. A directory in use may change between listing and reading: then it is read again.

What lies at a path where no log is: files of other programs, by their names and first bytes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from logcore.errors import LogError
from logcore.logs.model.findings import Finding, Severity, found
from logcore.logs.model.sources import SegmentFile
from logcore.logs.rules.advice import export_command
from logcore.records.packed_files import PROGRAMS, packed_kind
from logcore.segments import filenames
from logcore.segments.filenames import MAX_OFFSET
from logcore.segments.startup import (
    INDEX_SUFFIXES,
    DropReason,
    StartFiles,
    is_plain_name,
    kept_at_start,
    orphaned_bases,
)
from logcore.storage.headers import HeaderReader
from logcore.storage.objects.addresses import is_object
from logcore.storage.source_errors import SourceUnreadable, shown
from logcore.storage.source_tree import DirectoryEntry, SourceTree
from logcore.texts import shell_word

_FOREIGN = re.compile(r"[.~#@$].*|.*~|lost\+found|System Volume Information|Thumbs\.db|desktop\.ini", re.DOTALL)
_OF_NAMES = (
    (
        r"lake\.json",
        "is a lake. `loglake verify LAKE` verifies it, and `loglake query LAKE` reads its tables. `EXPORT` writes its "
        "archive as a log directory",
    ),
    (
        r".*-v[0-9]+\.log|.*\.base_index",
        "has data of Redpanda, whose segments have another format. Read them through its brokers",
    ),
    (
        r"kafka-streams-process-metadata|rocksdb",
        "has the state of a Kafka Streams application. Its records are in changelog topics, in the log directories of "
        "brokers",
    ),
    (
        r"(server|controller|state-change|kafkaServer(-gc)?|log-cleaner|kafka-request)\.(log|out)",
        "has text logs of a broker, not its data. The data is in `log.dirs` of its server.properties",
    ),
    (
        r".*\.(tar|tgz|gz|zst|xz|bz2|lz4|zip)",
        "has packed files. Unpack them, and name the log directory that was inside",
    ),
)


def is_foreign(name: str) -> bool:
    """Whether desktops, editors, file systems, rsync or file servers make such a name for files of their own."""
    return _FOREIGN.fullmatch(name) is not None


def what_directory(names: Collection[str], path: str) -> str | None:
    """What a directory with these names has, as messages show its path; None if that is not known."""
    known = (what for form, what in _OF_NAMES if any(re.fullmatch(form, name) for name in names))
    return next((what.replace("LAKE", path).replace("EXPORT", export_command(path)) for what in known), None)


def what_file(head: bytes) -> str | None:
    """What a file is that begins with these bytes; None if that is not known."""
    packed = packed_kind(head)
    if packed is not None:
        return f"is {packed}. Unpack it, and name the log directory or the segment that was inside"
    if head and all(byte in b"\t\r\n" or 32 <= byte < 127 for byte in head):
        return "is a text file, such as the text log of a broker. Its data is in `log.dirs` of its server.properties"
    return None


MAX_SEGMENT_SIZE = 2**31 - 1
"""Kafka stores positions in 32 bits; no broker opens a larger segment."""

_LOOKS = 3
_NOT_READ = ("It is not read", "They are not read")
_BASE = re.compile("(?<![0-9])[0-9]{20}(?![0-9])")
"""The base offset in the name of a copy of a segment, such as `Copy of 00000000000000000000.log`."""
_ASIDE = re.compile(r"(?<![0-9])([0-9]{20})(?![0-9]).*\.log.+", re.DOTALL)
"""The name of a segment that somebody, or the broker, put aside: `00000000000000000000.log.bak`, `….log.deleted`."""
_BY_BROKER = (filenames.DELETED_SUFFIX, filenames.CLEANED_SUFFIX, filenames.SWAP_SUFFIX)

Names = dict[str, DirectoryEntry]


@dataclass(frozen=True, slots=True)
class KnownBounds:
    """What checkpoints say of a log; None: nothing."""

    log_start: int | None = None
    """By its line, or where its leader epochs begin."""
    cleaned_to: int | None = None
    high_watermark: int | None = None


@dataclass(slots=True)
class PartitionFiles:
    """The files of a partition directory.

    `unreadable`: base offsets of segments that exist and cannot be read. `snapshots`, `metadata_snapshots`: producer
    snapshots and KRaft snapshots as (exclusive end offset, path), ascending. `orphaned`: base offsets of indexes whose
    segment is gone. `aside`: paths of segments that were put aside, with the base offset in their names.
    """

    segments: list[SegmentFile] = field(default_factory=list)
    unreadable: list[int] = field(default_factory=list)
    snapshots: list[tuple[int, str]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    metadata_snapshots: list[tuple[int, str]] = field(default_factory=list)
    orphaned: tuple[int, ...] = ()
    aside: dict[str, str] = field(default_factory=dict)

    def say(self, rule: str, path: str, message: str, nbytes: int | None = None) -> None:
        """Add a finding about a file."""
        self.findings.append(found(rule, message, file=shown(path), nbytes=nbytes))

    def inform(self, rule: str, path: str, message: str) -> None:
        """Add a finding about a file that is information here."""
        self.findings.append(replace(found(rule, message, file=shown(path)), severity=Severity.INFO))


def read_partition(
    path: str,
    entries: Callable[[], Sequence[DirectoryEntry] | None],
    tree: SourceTree,
    only: set[int] | None = None,
    headers: HeaderReader | None = None,
) -> PartitionFiles | None:
    """Read the files of a partition directory; None if it cannot be listed.

    Args:
        path: The partition directory.
        entries: Lists the directory; called again if a file disappears meanwhile.
        tree: Where the files are.
        only: Base offsets of segments that were named one by one. These and their neighbours are read under their plain
            names, without the rules of a broker's start.
        headers: Reads headers of batches.
        bounds: Of the log. Only between them a file that was put aside has offsets that are lost.
    """
    reader = headers or HeaderReader()
    for left in reversed(range(_LOOKS)):
        listed = entries()
        if listed is None:
            return None
        names = {entry.name: entry for entry in listed}
        looked = _look(path, names, tree, only, reader, is_last=left == 0)
        if looked is not None:
            if only is None:
                looked.aside = {entry.path: match[1] for name, entry in names.items() if (match := _ASIDE.search(name))}
            return looked
    raise AssertionError("the last look always returns a result")


def _look(
    path: str, names: Names, tree: SourceTree, only: set[int] | None, reader: HeaderReader, *, is_last: bool
) -> PartitionFiles | None:
    """Read the listed files; None if a file disappeared since the listing and this is not the last look."""
    files = PartitionFiles(orphaned=orphaned_bases(names) if only is None else ())
    start = _start_files(path, names, tree, reader) if only is None else _as_named(names)
    odd: list[str] = []
    for name in names:
        is_odd = name.lower().endswith(filenames.LOG_SUFFIX) and filenames.segment_base_offset(name) is None
        if is_odd and not is_foreign(name) and not any(f"{base}.log" in names for base in _BASE.findall(name)):
            odd.append(names[name].path)
        plain_name, suffix = os.path.splitext(name)
        if suffix in PROGRAMS and filenames.segment_base_offset(plain_name) is not None and plain_name not in names:
            files.say("not-a-segment", names[name].path, _packed(names[name].path, PROGRAMS[suffix]))
        of_metadata = filenames.metadata_snapshot(name)
        if of_metadata is not None:
            files.metadata_snapshots.append((of_metadata[0], names[name].path))
    for plain, now in start.kept.items():
        end_offset = filenames.snapshot_end_offset(plain)
        if end_offset is not None:
            files.snapshots.append((end_offset, names[now].path))
        base_offset = filenames.segment_base_offset(plain)
        if base_offset is None:
            continue
        beside = tuple((suffix, names[name].path) for suffix, name in start.beside(base_offset).items())
        try:
            segment = _segment(names[now], base_offset, beside, tree, files)
        except FileNotFoundError as error:
            if not is_last:
                return None
            files.say("unreadable", names[now].path, f"{shown(names[now].path)} cannot be read: {error.strerror}.")
            segment = None
        if segment is None:
            files.unreadable.append(base_offset)
        else:
            files.segments.append(segment)
    for group in renamed_segments(files.segments, names, tree, reader) if only is None and not files.unreadable else ():
        wrong, right = {file.path for file in group}, {file.base_offset for file in group}
        files.segments = [each for each in files.segments if each.path not in wrong]
        files.orphaned = tuple(base for base in files.orphaned if base not in right)
        files.say("not-a-segment", group[0].path, f"{wrong_names(group)} {_NOT_READ[len(group) > 1]}: {move(group)}")
    commands = _named_back(odd, files, tree, reader) if odd else {}
    for each in odd:
        files.say("not-a-segment", each, not_a_segment(each) + commands.get(each, ""))
    _report(path, start, files)
    return files


def _as_named(names: Names) -> StartFiles:
    return StartFiles({name: name for name in sorted(names) if is_plain_name(name)}, {})


def _start_files(path: str, names: Names, tree: SourceTree, reader: HeaderReader) -> StartFiles:
    def next_offset(name: str) -> int:
        base_offset = int(name[:20])
        end = base_offset
        whole = os.path.join(path, name)
        try:
            seen = tree.state(whole)
            file = SegmentFile(base_offset, whole, seen.size, seen.modified_ms, seen.inode, etag=seen.etag)
            for _, header in reader.headers(file):
                end = end if header is None else header.next_offset
        except (LogError, FileNotFoundError):
            if is_object(path):
                raise  # with another answer the log would look different
            # Reported where the segment is opened.
        return end

    return kept_at_start(names, next_offset)


def _segment(
    entry: DirectoryEntry,
    base_offset: int,
    beside: tuple[tuple[str, str], ...],
    tree: SourceTree,
    files: PartitionFiles,
) -> SegmentFile | None:
    """Describe a segment's file; None, and a finding, if it cannot be read. Raises FileNotFoundError."""
    if not entry.is_file(follow_symlinks=False):
        files.say("not-a-segment", entry.path, not_a_segment(entry.path))
        return None
    try:
        seen = tree.state(entry.path)
    except SourceUnreadable as error:
        files.say("unreadable", entry.path, str(error))
        return None
    if seen.size > MAX_SEGMENT_SIZE:
        message = f"{shown(entry.path)} has {seen.size} bytes; no broker opens a segment above 2 GiB."
        files.say("oversized-segment", entry.path, message, seen.size)
    return SegmentFile(base_offset, entry.path, seen.size, seen.modified_ms, seen.inode, beside, seen.etag)


def _report(path: str, start: StartFiles, files: PartitionFiles) -> None:
    if start.swapped:
        replaced = sum(reason is DropReason.REPLACED for reason in start.dropped.values())
        message = (
            f"{shown(path)}: a broker was stopped while it replaced segments by cleaned ones. They are read as after "
            f"its start: {', '.join(start.swapped)} instead of {replaced} files."
        )
        files.say("interrupted-swap", path, message)
    if files.orphaned:
        message = (
            f"{shown(path)} has index files without a segment, at base offsets {', '.join(map(str, files.orphaned))}: "
            "somebody removed the .log files. A broker renames all files of a segment before it removes them."
        )
        files.say("leftover-file", path, message)
    silent = (DropReason.REPLACED, DropReason.STRAY_SNAPSHOT)
    orphans = {f"{base:020d}" for base in files.orphaned}
    leftovers = sum(reason not in silent and name[:20] not in orphans for name, reason in start.dropped.items())
    if leftovers:
        message = (
            f"{shown(path)} contains {leftovers} {'file' if leftovers == 1 else 'files'} left over from deletion or "
            "compaction. A broker's start removes them; they are not read."
        )
        files.say("leftover-file", path, message)


def _packed(path: str, program: str) -> str:
    """Say that a segment is packed, and what unpacks it."""
    plain = path.rpartition(".")[0]
    new = shell_word(f"{plain}.unpacked")
    command = f" `{program} {shell_word(path)} > {new} && mv {new} {shell_word(plain)}` unpacks it."
    command = "" if is_object(path) else command
    return f"{shown(path)} is a packed segment; it is not read.{command}"


def _named_back(odd: Sequence[str], files: PartitionFiles, tree: SourceTree, reader: HeaderReader) -> dict[str, str]:
    """The command for each segment under another name that gives it its own, by path.

    There is none for a file that is no segment, or if another file has an offset of it, or may have one.
    """
    return {
        file.path: f" It begins with offset {file.base_offset}, and no segment does: {move([file])}"
        for file, _ in _not_in_segments(odd, files, tree, reader)
    }


def renamed_segments(
    segments: Sequence[SegmentFile], names: Collection[str], tree: SourceTree, reader: HeaderReader
) -> list[list[SegmentFile]]:
    """Find segments whose batches begin at another offset than their name says, with their right base offset.

    Cleaning makes a segment begin above its name, and nothing makes it begin below. So the files beside the right name
    must still be there, or another such segment has it: else nothing shows where the segment was. No other file has an
    offset of it. Segments that only have each other's names leave no file without its segment: they are not looked for.

    Args:
        segments: The segments of a partition directory, by their names.
        names: The names in the directory.
        tree: Where the files are.
        reader: Reads headers of batches.

    Returns:
        Groups of segments. The right name of one is free, or that of the next one in its group.
    """
    bases = {file.path: file.base_offset for file in segments}
    ends = {filenames.snapshot_end_offset(name) for name in names} - {*bases.values(), None}
    left = {*orphaned_bases(names), *(end for end in ends if end is not None and end < max(bases.values(), default=0))}
    if not left:  # ordinary: no segment is opened
        return []
    beside = {int(name[:20]) for name in names if is_plain_name(name) and name.endswith(INDEX_SUFFIXES)}
    wrong = {bases[file.path]: file for file in _segments_at(list(bases), tree, reader)}
    wrong = _with_another_name({base: file for base, file in wrong.items() if file.base_offset != base}, left, beside)
    others = PartitionFiles([file for file in segments if file.base_offset not in wrong])
    sure = [file.path for file, _ in _not_in_segments([file.path for file in wrong.values()], others, tree, reader)]
    wrong = _with_another_name({base: file for base, file in wrong.items() if file.path in sure}, left, beside)
    groups: list[list[SegmentFile]] = []
    for base in sorted(wrong.keys() - {file.base_offset for file in wrong.values()}):
        groups.append([])
        while base in wrong:
            groups[-1].append(file := wrong.pop(base))
            base = file.base_offset
    return groups


def _with_another_name(
    wrong: dict[int, SegmentFile], left: Collection[int], beside: Collection[int]
) -> dict[int, SegmentFile]:
    """Segments, by the offset in their name, whose right name is in `left` or is the name of another one of them.

    One that begins above its name may only be cleaned. Then it has indexes `beside` it, and they are its own.
    """
    while True:
        rights = {file.base_offset for file in wrong.values()}
        kept = {
            base: file
            for base, file in wrong.items()
            if (file.base_offset in wrong or file.base_offset in left)
            and (file.base_offset < base or base not in beside or base in rights)
        }
        if len(kept) == len(wrong):
            return kept
        wrong = kept


def wrong_names(group: Sequence[SegmentFile]) -> str:
    """Say of a group of `renamed_segments` why the names are wrong."""
    return " ".join(
        f"{shown(file.path)} has the batches from offset {file.base_offset} on, and its name says "
        f"{int(os.path.basename(file.path)[:20])}."
        for file in group
    )


def move(group: Sequence[SegmentFile]) -> str:
    """Return the command that gives segments the names of their base offsets, as a sentence."""
    rights = [os.path.join(os.path.dirname(file.path), filenames.segment_file_name(file.base_offset)) for file in group]
    moves = [(file.path, right) for file, right in reversed(list(zip(group, rights, strict=True)))]
    command = " && ".join(f"mv -n {shell_word(now)} {shell_word(right)}" for now, right in moves)
    return f"`{command}` gives {'it its name' if len(group) == 1 else 'them their names'}."


def _not_in_segments(
    paths: Sequence[str], files: PartitionFiles, tree: SourceTree, reader: HeaderReader
) -> list[tuple[SegmentFile, int]]:
    """Files under other names, with their ends, of which no other file has an offset."""
    lost = _segments_at(paths, tree, reader)
    if not lost or files.unreadable:
        return []
    known = sorted([*files.segments, *lost], key=lambda file: file.base_offset)
    # Of the segments only those before a renamed one are read.
    ends = [
        _end_offset(file, reader) if any(each in lost for each in known[at : at + 2]) else 0
        for at, file in enumerate(known)
    ]
    follows = [*(file.base_offset for file in known[1:]), MAX_OFFSET]
    return [
        (file, ends[at])
        for at, file in enumerate(known)
        if file in lost and max(ends[:at], default=0) <= file.base_offset and ends[at] <= follows[at]
    ]


def _segments_at(paths: Sequence[str], tree: SourceTree, reader: HeaderReader) -> list[SegmentFile]:
    """The files that begin with a good batch, with its base offset."""
    found: list[SegmentFile] = []
    for path in paths:
        with suppress(LogError, OSError):
            if not is_object(path) and not os.path.islink(path) and os.path.isfile(path):
                seen = tree.state(path)
                file = SegmentFile(0, path, seen.size, seen.modified_ms, seen.inode)
                header = reader.header_at(file, 0)
                if header is not None and reader.is_good(file, 0, header):
                    found.append(replace(file, base_offset=header.base_offset))
    return found


def _report_longer(files: PartitionFiles, tree: SourceTree, reader: HeaderReader, bounds: KnownBounds) -> None:
    """Report copies beside a segment that have committed offsets after its end, as of one that was cut since."""
    segments = {segment.base_offset: segment for segment in files.segments}
    bases = sorted(segments)
    paths = [
        path
        for path, base in files.aside.items()
        if int(base) in segments and not path.endswith((*PROGRAMS, *_BY_BROKER))
    ]
    for file in _segments_at(paths, tree, reader):
        segment = segments.get(file.base_offset)
        if segment is None:
            continue
        follows = next((base for base in bases if base > file.base_offset), MAX_OFFSET)
        committed = follows if bounds.high_watermark is None else bounds.high_watermark
        (end, _), ends = _read_end(segment, reader), _end_offset(file, reader)
        if end < min(ends, committed) and ends <= follows and ends < MAX_OFFSET:
            there, path = shell_word(segment.path), shell_word(file.path)
            files.say(
                "not-a-segment",
                file.path,
                f"{shown(file.path)} has the offsets [{end}, {ends}), which {os.path.basename(segment.path)} beside it "
                f"has not. It is not read: `mv -n {there} {there}.cut && mv -n {path} {there}` exchanges them.",
            )


def report_aside(files: PartitionFiles, tree: SourceTree, reader: HeaderReader, bounds: KnownBounds) -> None:
    """Report segments that were put aside and have offsets that the log lost.

    A broker does so with segments that it cleaned, deleted or cut off. Then nothing is lost below the cleaner's
    checkpoint, above the high watermark, and after a segment that a cleaned one replaces. A copy below the first
    segment may be of one that retention deleted: only a known log start, which it moves first, says so.
    """
    _report_longer(files, tree, reader, bounds)
    aside = files.aside
    bases = [segment.base_offset for segment in files.segments]
    paths = [
        path for path, base in aside.items() if os.path.splitext(path)[1] not in PROGRAMS and int(base) not in bases
    ]
    for file, end in _not_in_segments(paths, files, tree, reader) if paths else ():
        start, stop = bounds.log_start or 0, MAX_OFFSET if bounds.high_watermark is None else bounds.high_watermark
        if file.path.endswith(_BY_BROKER):
            start = max(start, bounds.cleaned_to or 0)
            stop = min(stop, max(bases, default=stop)) if bounds.high_watermark is None else stop
            before = max((base for base in bases if base < file.base_offset), default=None)
            is_first = before is None and bounds.log_start is None and bool(bases)
            if is_first or (before is not None and f"{before:020d}" in aside.values()):
                continue
        if end > start and file.base_offset < stop:
            message = f"{shown(file.path)} has the offsets [{file.base_offset}, {end}), which no segment has."
            if bounds.log_start is None and file.base_offset < min(bases, default=0):
                message += " They lie below the first segment, as after retention. It is not read."
                files.inform("not-a-segment", file.path, message)
            else:
                files.say("not-a-segment", file.path, f"{message} It is not read: {move([file])}")


def _end_offset(segment: SegmentFile, reader: HeaderReader) -> int:
    """Where a segment ends, above its base offset; the greatest offset if that cannot be read."""
    end, is_whole = _read_end(segment, reader)
    return end if is_whole else MAX_OFFSET


def _read_end(segment: SegmentFile, reader: HeaderReader) -> tuple[int, bool]:
    """The end of a segment as far as its headers can be read, above its base offset, and whether all can be read."""
    end = segment.base_offset + 1
    with suppress(LogError):
        for _, header in reader.headers(segment):
            if header is None:
                return end, False
            end = max(end, header.next_offset)
        return end, True
    return end, False


def not_a_segment(path: str) -> str:
    """Why a path cannot be read as a segment, and the command that repairs it."""
    if filenames.segment_base_offset(os.path.basename(path).removesuffix(filenames.SWAP_SUFFIX)) is None:
        if not is_object(path) and os.path.exists(path) and not os.path.isfile(path):
            return f"{shown(path)} is not a segment: it is not a regular file; it is not opened."
        return f"{shown(path)} is not a segment: a segment's name is its base offset in 20 digits and .log."
    if not is_object(path) and os.path.islink(path):
        target = os.path.join(os.path.dirname(path), os.readlink(path))
        put = (
            f"`cp -p --remove-destination {shell_word(target)} {shell_word(path)}` puts the file in place of the link."
        )
        if os.path.isfile(target):
            return f"{shown(path)} is a link to {shown(target)}, and links are not read. {put}"
        return f"{shown(path)} is a link to {shown(target)}, which is not there. When it is there again, {put}"
    return f"{shown(path)} is named like a segment but is not a regular file; it is not opened."
