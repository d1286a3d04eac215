"""Salvage: keep what a broker's start would lose of a damaged log.

What is kept, precisely:

    files of interrupted work     as by a start: see `logcore.segments.startup`
    batches                       every batch that is good by `logcore.segments.scanning.scan`, as for `verify`: its
                                  checksum is right, its records can be decoded, its offsets are above all that was
                                  kept before it and below the next segment's base.
                                  Whole batches, never parts, in their order, their bytes unchanged
    a wrong length field          corrected, if the bytes up to what follows match the batch's checksum and decode
    a compressed message at 0     v0, v1: with offset 0 around messages of other offsets; gets that of its last message
    damaged bytes                 cut out of their segment, each stretch named as a loss. As for `verify`,
                                  `logcore.segments.scanning.resynchronization` decides where the next batch begins
    later segments                kept, whatever happened before them
    a segment too wide            batches further above a segment's base than an index allows begin a new file
    batches that would overlap    without the damage between them: the second begins a new file
    a segment without a batch     is left out, unless there is no other; so its offsets are used again
    indexes, snapshots, epochs    all rebuilt from what is kept; a readable leader-epoch history is continued, an
                                  invalid one is rebuilt from the batches
    partition.metadata            kept if it is valid
    log start                     the checkpoint's, unless the log ends below it: then the first segment's base

Offsets that are cut out are a gap like those of compaction: consumers skip it. What such a log lost stays lost: an
aborted transaction without its marker stays open, and a lost tombstone deletes nothing. A log is refused only if a
broker would not start with it even so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from logcore.errors import CorruptIndexError, CorruptRecordError
from logcore.logs.model.gaps import GapRules
from logcore.logs.model.partition_directory import Cut, Keep, PartitionDirectory, PartitionFile, ProposedFile, Write
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.recovery.loading import started_with
from logcore.logs.recovery.losses import Bounds, Damage, Loss, SegmentOffsets, missing_offsets, with_damage
from logcore.logs.recovery.proposal import RecoveryPlan, root_lines
from logcore.logs.recovery.segment_pieces import NewFile, Zeros, header_of, segment_pieces
from logcore.logs.recovery.segment_recovery import Recover, WouldNotStart
from logcore.logs.recovery.working_files import RecoveryStep
from logcore.records.batch import read_header
from logcore.records.model import LENGTH_AT, LOG_OVERHEAD, BatchHeader
from logcore.records.varint import Buffer
from logcore.segments.filenames import (
    LEADER_EPOCH_FILE,
    LOG_SUFFIX,
    PARTITION_METADATA_FILE,
    SWAP_SUFFIX,
    segment_file_name,
)
from logcore.segments.scanning.damaged_batch import repaired_bytes
from logcore.segments.scanning.fetched_bytes import FetchedBytes
from logcore.segments.scanning.scan import ScannedBatch, SegmentScan, Stretch
from logcore.segments.side_files import checkpoints
from logcore.segments.startup import is_plain_name, kept_at_start, misnamed


@dataclass(slots=True)
class _Part:
    """A new segment file: the pieces of an old one in it, as (start, end) in bytes.

    `repaired` replaces pieces that are one batch each, with a corrected length or offset.
    """

    base_offset: int
    pieces: list[tuple[int, int]] = field(default_factory=list)
    repaired: dict[tuple[int, int], bytes] = field(default_factory=dict)

    _last: tuple[Buffer, int] | None = None
    """The last batch taken, and the offset that was expected there."""

    def take(self, content: Buffer, piece: ScannedBatch | Stretch, whole: bytes | None, expected: int) -> None:
        self._last = whole or memoryview(content)[piece.position : piece.end], expected
        if whole is not None:
            self.pieces.append((piece.position, piece.end))
            self.repaired[piece.position, piece.end] = whole
        elif self.pieces and self.pieces[-1][1] == piece.position and self.pieces[-1] not in self.repaired:
            self.pieces[-1] = (self.pieces[-1][0], piece.end)
        else:
            self.pieces.append((piece.position, piece.end))

    def contradicts(self, content: Buffer, piece: ScannedBatch | Stretch, whole: bytes | None) -> bool:
        """Whether the scan would refuse the last batch if this one came after it, without the damage between them."""
        if self._last is None or self.pieces[-1][1] == piece.position:
            return False
        last, expected = self._last
        both = b"".join((last, whole or memoryview(content)[piece.position : piece.end]))
        first = next(iter(SegmentScan(both, base_offset=self.base_offset, sealed=True, next_offset=expected)))
        return not isinstance(first, ScannedBatch)


def plan_salvage(
    directory: PartitionDirectory,
    config: TopicConfig,
    *,
    as_of_ms: int,
    recover: Recover,
    gaps: GapRules | None = None,
) -> RecoveryPlan:
    """Plan a salvage. Its losses are what is cut out for good, and with `gaps` what no segment has."""
    start = kept_at_start(directory.files, lambda name: _end(directory, name), with_strays=True)
    dropped = {name: str(reason) for name, reason in start.dropped.items()}
    for name in misnamed(directory.files):
        dropped[name] = "it has the name of a cleaning's output, but no broker wrote it"
    now = {name: source for name, source in start.kept.items() if name.endswith(LOG_SUFFIX)}
    losses: list[Loss] = []
    made: dict[str, ProposedFile] = {}
    offsets = SegmentOffsets(gaps)
    bases = [int(name[:20]) for name in now]
    for number, base_offset in enumerate(bases):
        source = directory.files[now[segment_file_name(base_offset)]]
        next_base = bases[number + 1] if number + 1 < len(bases) else None
        made |= _salvaged_files(source, base_offset, next_base, directory.high_watermark, losses, offsets, as_of_ms)
    if bases and not made:
        made[segment_file_name(bases[0])] = Write(b"", as_of_ms)
    for name, source_name in start.kept.items():
        if name.endswith(LOG_SUFFIX) and name not in made:
            dropped[source_name] = "no batch in it can be trusted"
    whole = _others(directory, losses, dropped) | made
    plan = _loaded(directory, whole, dropped, losses, config, as_of_ms, recover)
    if gaps is None or plan.refusal is not None:
        return plan
    # A first segment without a batch is left out, and the log begins after it. Its content is missing nevertheless.
    log_start_offset = max(directory.log_start_offset or 0, min(offsets.ends, default=0))
    missing = missing_offsets(directory, offsets, log_start_offset, gaps, losses)
    return replace(plan, losses=(*plan.losses, *missing))


def _loaded(
    directory: PartitionDirectory,
    whole: dict[str, ProposedFile],
    dropped: dict[str, str],
    losses: list[Loss],
    config: TopicConfig,
    as_of_ms: int,
    recover: Recover,
) -> RecoveryPlan:
    """Build side files for the salvaged logs by a start on them."""
    files = {name: _salvaged(directory, name, file, as_of_ms) for name, file in whole.items()}
    try:
        salvaged, loading = started_with(directory, files, config, as_of_ms, recover)
    except WouldNotStart as error:
        return RecoveryPlan({}, refusal=f"Even the salvaged log would keep a broker from starting: {error}")
    result: dict[str, ProposedFile] = {}
    for name, file in sorted(loading.disk.files.items()):
        result[name] = whole[file.source] if isinstance(file, Keep) else file
        source = directory.files.get(name)
        if isinstance(result[name], Write) and source is not None and _same(source, loading.disk.file(name)):
            result[name] = Keep(name)
    for name in directory.files:
        if name not in result and name not in dropped and not name.endswith(SWAP_SUFFIX):
            dropped[name] = "side files are all rebuilt"
    steps = tuple(RecoveryStep("cut out", loss.file, loss.message) for loss in losses) + tuple(loading.disk.steps)
    root = replace(
        root_lines(loading, salvaged), recovery_point=min(directory.recovery_point or 0, loading.log_end_offset)
    )
    return RecoveryPlan(
        result,
        dropped,
        steps,
        tuple(losses),
        root,
        loading.epochs,
        loading.log_start_offset,
        loading.log_end_offset,
    )


def _end(directory: PartitionDirectory, name: str) -> int:
    """The offset after the last batch by the headers, as `logcore.storage.partition_files` reads it of such a file.

    Damage may claim any offset. If the highest one decided, a salvage could drop segments that `verify` reads.
    """
    file, position, end = directory.files[name], 0, int(name[:20])
    content = file.content
    while position < len(content):
        header = _header_at(file, position)
        if header is None:
            position += LOG_OVERHEAD + max(0, int.from_bytes(content[position + LENGTH_AT : position + LOG_OVERHEAD]))
            header = _header_at(file, position)
            if header is None:
                break
        end, position = header.next_offset, position + header.size
    return end


def _header_at(file: PartitionFile, position: int) -> BatchHeader | None:
    if file.fetched is not None:
        file.fetched.fetch_batch(position)
    try:
        return read_header(file.content, position, file.size)
    except CorruptRecordError:
        return None


def _parts(
    content: Buffer,
    fetched: FetchedBytes | None,
    base_offset: int,
    next_base: int | None,
    high_watermark: int | None,
    losses: list[Loss],
    offsets: SegmentOffsets,
) -> list[_Part]:
    """The good batches of a segment's file, as new files."""
    name = segment_file_name(base_offset)
    parts, end = [_Part(base_offset)], base_offset
    pieces = segment_pieces(content, base_offset, next_base, fetched)
    for piece in with_damage(content, pieces, Bounds(next_base, high_watermark)):
        whole: bytes | None = None
        match piece:
            case ScannedBatch() if _is_at_zero(content, piece):
                whole = _with_offset(content, piece)
                message = "a compressed message with offset 0 gets the offset of its last message"
                offset = piece.header.base_offset
                losses.append(Loss("offset-repaired", name, message, piece.position, piece.size, offset))
            case ScannedBatch():
                pass
            case Stretch():
                whole = repaired_bytes(content, piece.position, piece.end)
                message = "its length field was wrong and is corrected, as its checksum proves"
                losses.append(Loss("length-repaired", name, message, piece.position, piece.size, piece.offset))
            case NewFile():
                parts.append(_Part(piece.base_offset))
                continue
            case Damage():
                losses.append(_cut_out(name, piece))
                continue
            case Zeros():
                losses.append(_zeros(name, piece, next_base))
                continue
        if parts[-1].contradicts(content, piece, whole):
            parts.append(_Part(end))
        parts[-1].take(content, piece, whole, end)
        header = header_of(content, piece)
        offsets.between(base_offset, end, header.base_offset)
        end = header.next_offset
    offsets.ends[base_offset] = end
    return [part for part in parts if part.pieces]


def _is_at_zero(content: Buffer, batch: ScannedBatch) -> bool:
    """Whether it is a compressed message with offset 0, which no checksum covers, around messages of other offsets."""
    header = batch.header
    is_zero = header.is_wrapper and not any(content[batch.position : batch.position + LENGTH_AT])
    return is_zero and header.last_offset != 0


def _with_offset(content: Buffer, batch: ScannedBatch) -> bytes:
    """A compressed message with the offset of its last message."""
    offset = batch.header.last_offset.to_bytes(LENGTH_AT, "big", signed=True)
    return offset + bytes(content[batch.position + LENGTH_AT : batch.end])


def _cut_out(name: str, damage: Damage) -> Loss:
    stretch = damage.stretch
    kind, message = "torn-tail" if stretch.tail else "cut", f"cut out: {stretch.message}"
    if stretch.unreadable:
        kind, message = "unreadable", f"{message}; the disk failed to read {stretch.unreadable} of these bytes"
    return Loss(
        kind,
        name,
        message,
        stretch.position,
        stretch.size,
        stretch.offset,
        damage.first_offset,
        damage.last_offset,
        damage.records,
    )


def _zeros(name: str, zeros: Zeros, next_base: int | None) -> Loss:
    if next_base is None or zeros.offset >= next_base:
        message = "zeros up to the end"
        return Loss("torn-tail", name, message, zeros.position, zeros.nbytes, zeros.offset, records=0)
    message = "zeros up to the end of a segment although others follow"
    return Loss("cut", name, message, zeros.position, zeros.nbytes, zeros.offset, zeros.offset, next_base - 1)


def _salvaged_files(
    source: PartitionFile,
    base_offset: int,
    next_base: int | None,
    high_watermark: int | None,
    losses: list[Loss],
    offsets: SegmentOffsets,
    as_of_ms: int,
) -> dict[str, ProposedFile]:
    """The new files of one segment's file, by name. `offsets` receives what they have."""
    content, fetched = source.content, source.fetched
    parts = _parts(content, fetched, base_offset, next_base, high_watermark, losses, offsets)
    return {segment_file_name(part.base_offset): _file(source, content, fetched, part, as_of_ms) for part in parts}


def _file(
    source: PartitionFile, content: Buffer, fetched: FetchedBytes | None, part: _Part, as_of_ms: int
) -> ProposedFile:
    # Bytes that the disk failed to read cannot be copied, even if a good batch has zeros there.
    is_readable = fetched is None or not any(fetched.unreadable(*piece) for piece in part.pieces)
    if not part.repaired and is_readable:
        if part.pieces == [(0, len(content))]:
            return Keep(source.name)
        if len(part.pieces) == 1 and part.pieces[0][0] == 0:
            return Cut(source.name, part.pieces[0][1], as_of_ms)
    return Write(b"".join(_bytes_of(content, part, piece) for piece in part.pieces), as_of_ms)


def _bytes_of(content: Buffer, part: _Part, piece: tuple[int, int]) -> Buffer:
    start, end = piece
    return part.repaired[piece] if piece in part.repaired else memoryview(content)[start:end]


def _salvaged(directory: PartitionDirectory, name: str, file: ProposedFile, as_of_ms: int) -> PartitionFile:
    match file:
        case Keep(source):
            return PartitionFile(name, directory.files[source].held, as_of_ms)
        case Cut(source, size, _):
            return replace(directory.files[source].beginning(size, as_of_ms), name=name)
        case Write(content, _):
            return PartitionFile(name, content, as_of_ms)


def _others(directory: PartitionDirectory, losses: list[Loss], dropped: dict[str, str]) -> dict[str, ProposedFile]:
    """Files that do not belong to a segment: the valid ones are kept."""
    parsers = {
        LEADER_EPOCH_FILE: checkpoints.parse_leader_epochs,
        PARTITION_METADATA_FILE: checkpoints.parse_partition_metadata,
    }
    kept: dict[str, ProposedFile] = {}
    for name, file in _not_of_segments(directory):
        if name in dropped:
            continue
        try:
            if name in parsers:
                parsers[name](bytes(file.content))
            kept[name] = Keep(name)
        except CorruptIndexError as error:
            dropped[name] = f"it is invalid: {error.message}"
            losses.append(Loss("metadata-missing", name, dropped[name]))
    return kept


def _not_of_segments(directory: PartitionDirectory) -> Iterator[tuple[str, PartitionFile]]:
    for name, file in directory.files.items():
        if not is_plain_name(name) and not name.endswith(SWAP_SUFFIX):
            yield name, file


def _same(file: PartitionFile, wanted: PartitionFile) -> bool:
    return file.size == wanted.size and bytes(file.content) == bytes(wanted.content)
