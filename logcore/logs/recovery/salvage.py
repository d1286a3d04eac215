"""Salvage: what a broker's start would lose of a damaged log, kept.

What is kept, precisely:

    files of interrupted work     as a start treats them: see `logcore.segments.startup`
    batches                       every batch that is good by `logcore.segments.scan`: its checksum is right, its
                                  offsets rise above all that was kept before it and stay below the next segment's
                                  base. Whole batches, never parts, in their order, their bytes unchanged
    damaged bytes                 cut out of their segment, each stretch named as a loss. Behind bytes whose end nothing
                                  proves the rest of that segment's file goes; nothing is searched for
    later segments                kept, whatever happened in front of them
    a segment too wide            batches that lie further above a segment's base than an index can say begin a new file
    a segment without a batch     is left out, unless there is no other; so its offsets are given out again
    indexes, snapshots, epochs    all made again from what is kept; a leader-epoch history that can be read is gone on
                                  from, one that cannot is made from the batches
    partition.metadata            kept if it can be understood
    log start                     the checkpoint's, unless the log ends below it: then the first segment's base

Offsets that are cut out are a gap, as compaction leaves it: consumers pass over it. What such a log lacks it lacks for
ever: an aborted transaction whose marker is lost stays open, a tombstone that is lost takes nothing away. Refused is
only what a broker would not start with even so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from logcore.errors import CorruptIndexError, CorruptRecordError
from logcore.logs.partition_directory import Cut, Keep, PartitionDirectory, PartitionFile, ProposedFile, Write
from logcore.logs.recovery.loading import Loading
from logcore.logs.recovery.plan import Loss, RecoveryPlan, root_lines
from logcore.logs.recovery.segment_recovery import Recover, WouldNotStart
from logcore.logs.recovery.working_files import Step
from logcore.logs.topic_config import TopicConfig
from logcore.records.batch import crc_matches, read_header
from logcore.records.legacy import unfold
from logcore.records.varint import Buffer
from logcore.segments import checkpoints
from logcore.segments.filenames import (
    LEADER_EPOCH_FILE,
    LOG_SUFFIX,
    PARTITION_METADATA_FILE,
    SWAP_SUFFIX,
    segment_file_name,
)
from logcore.segments.scan import MAX_RELATIVE_OFFSET, ScannedBatch, Stretch, scan
from logcore.segments.startup import is_plain_name, kept_at_start, misnamed


@dataclass(slots=True)
class _Part:
    """A new segment file: the pieces of an old one that it is made of, as (start, end) in bytes."""

    base_offset: int
    pieces: list[tuple[int, int]] = field(default_factory=list)

    def take(self, batch: ScannedBatch) -> None:
        if self.pieces and self.pieces[-1][1] == batch.position:
            self.pieces[-1] = (self.pieces[-1][0], batch.end)
        else:
            self.pieces.append((batch.position, batch.end))


def plan_salvage(
    directory: PartitionDirectory, config: TopicConfig, *, as_of_ms: int, recover: Recover
) -> RecoveryPlan:
    """The plan of a salvage; its losses are what is cut out for good."""
    start = kept_at_start(directory.files, lambda name: _end(directory, name), with_strays=True)
    dropped = {name: str(reason) for name, reason in start.dropped.items()}
    for name in misnamed(directory.files):
        dropped[name] = "it is named as a cleaning's output, and no broker made it"
    now = {name: source for name, source in start.kept.items() if name.endswith(LOG_SUFFIX)}
    losses: list[Loss] = []
    made: dict[str, ProposedFile] = {}
    bases = [int(name[:20]) for name in now]
    for number, base_offset in enumerate(bases):
        source = directory.files[now[segment_file_name(base_offset)]]
        behind = bases[number + 1] if number + 1 < len(bases) else None
        for part in _parts(source.content, base_offset, behind, losses):
            made[segment_file_name(part.base_offset)] = _file(source, part, as_of_ms)
    if bases and not made:
        made[segment_file_name(bases[0])] = Write(b"", as_of_ms)
    for name, source_name in start.kept.items():
        if name.endswith(LOG_SUFFIX) and name not in made:
            dropped[source_name] = "no batch in it can be trusted"
    whole = _others(directory, losses, dropped) | made
    return _loaded(directory, whole, dropped, losses, config, as_of_ms, recover)


def _loaded(
    directory: PartitionDirectory,
    whole: dict[str, ProposedFile],
    dropped: dict[str, str],
    losses: list[Loss],
    config: TopicConfig,
    as_of_ms: int,
    recover: Recover,
) -> RecoveryPlan:
    """Side files for the salvaged logs, by a start over them."""
    files = {name: PartitionFile(name, _content(directory, file), as_of_ms) for name, file in whole.items()}
    salvaged = replace(directory, files=files, recovery_point=0, is_clean=False)
    loading = Loading(salvaged, config, as_of_ms, recover, is_clean=False)
    try:
        loading.run()
        if loading.removed:
            salvaged = replace(salvaged, log_start_offset=None)
            loading = Loading(salvaged, config, as_of_ms, recover, is_clean=False)
            loading.run()
    except WouldNotStart as error:
        return RecoveryPlan({}, refusal=f"Even what is salvaged would keep a broker from starting: {error}")
    result: dict[str, ProposedFile] = {}
    for name, file in sorted(loading.disk.files.items()):
        result[name] = whole[file.source] if isinstance(file, Keep) else file
        source = directory.files.get(name)
        if isinstance(result[name], Write) and source is not None and _same(source.content, loading.disk.content(name)):
            result[name] = Keep(name)
    for name in directory.files:
        if name not in result and name not in dropped and not name.endswith(SWAP_SUFFIX):
            dropped[name] = "side files are all made again"
    steps = tuple(Step("cut out", loss.file, loss.message) for loss in losses) + tuple(loading.disk.steps)
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
    walk = scan(directory.files[name].content, base_offset=int(name[:20]), sealed=True, decode=False)
    for _ in walk:
        pass
    return walk.next_offset


def _parts(content: Buffer, base_offset: int, next_base: int | None, losses: list[Loss]) -> list[_Part]:
    """The good batches of a segment's file, as new files. None reaches the next base, so all of them rise."""
    name, sealed = segment_file_name(base_offset), next_base is not None
    parts, start = [_Part(base_offset)], 0
    while start < len(content):
        walk = scan(
            content,
            base_offset=parts[-1].base_offset,
            sealed=sealed,
            decode=False,
            next_base_offset=next_base,
            start=start,
        )
        start = len(content)
        for item in walk:
            if isinstance(item, ScannedBatch):
                parts[-1].take(item)
                continue
            beyond = _begins_new_part(content, item, parts[-1].base_offset, walk.next_offset, next_base)
            if beyond is not None:
                parts.append(_Part(beyond))
                start = item.position
                break
            kind = "torn-tail" if item.tail else "cut"
            losses.append(Loss(kind, name, f"cut out: {item.message}", item.position, item.size, item.offset))
        else:
            if walk.accounting.padding:
                at = len(content) - walk.accounting.padding
                losses.append(Loss("torn-tail", name, "zeros up to the end", at, walk.accounting.padding))
    return [part for part in parts if part.pieces]


def _begins_new_part(
    content: Buffer, stretch: Stretch, base_offset: int, expected: int, next_base: int | None
) -> int | None:
    """The base offset of a batch that is bad only for lying too far above its segment's base; None for any other."""
    try:
        header = read_header(content, stretch.position)
        if not crc_matches(content, stretch.position, header):
            return None
        header = unfold(content, stretch.position, header)
    except CorruptRecordError:
        return None
    fits = header.base_offset >= expected and (next_base is None or header.last_offset < next_base)
    return header.base_offset if fits and header.last_offset > base_offset + MAX_RELATIVE_OFFSET else None


def _file(source: PartitionFile, part: _Part, as_of_ms: int) -> ProposedFile:
    if part.pieces == [(0, len(source.content))]:
        return Keep(source.name)
    if len(part.pieces) == 1 and part.pieces[0][0] == 0:
        return Cut(source.name, part.pieces[0][1], as_of_ms)
    view = memoryview(source.content)
    return Write(b"".join(view[start:end] for start, end in part.pieces), as_of_ms)


def _content(directory: PartitionDirectory, file: ProposedFile) -> Buffer:
    match file:
        case Keep(source):
            return directory.files[source].content
        case Cut(source, size, _):
            return memoryview(directory.files[source].content)[:size]
        case Write(content, _):
            return content


def _others(directory: PartitionDirectory, losses: list[Loss], dropped: dict[str, str]) -> dict[str, ProposedFile]:
    """Files that are no segment's: those that can be understood are kept."""
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
            dropped[name] = f"it cannot be understood: {error.message}"
            losses.append(Loss("metadata-missing", name, dropped[name]))
    return kept


def _not_of_segments(directory: PartitionDirectory) -> Iterator[tuple[str, PartitionFile]]:
    for name, file in directory.files.items():
        if not is_plain_name(name) and not name.endswith(SWAP_SUFFIX):
            yield name, file


def _same(content: Buffer, wanted: Buffer) -> bool:
    return len(content) == len(wanted) and bytes(content) == bytes(wanted)
