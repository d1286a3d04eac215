"""A rebuild of a log's side files without a change of its segments: `.index`, `.timeindex`, `.txnindex`, `.snapshot`.

The result is what a broker's recovery from the first segment on writes. A segment that such a recovery would cut, or
with impossible offsets, is refused: its side files stay as they are, with a finding. The segments after it still get
their offset and time indexes. Their aborted transactions and the state of producers depend on the damaged segment, so
those files stay too. A write in progress or reserved space at the log's end is not indexed, and not changed either; nor
are bytes after the last offset of a closed segment.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from logcore.errors import LogError
from logcore.logs.checks.validation import Reader, read_plainly
from logcore.logs.model.broker_line import DEFAULT_LINE, BrokerLine
from logcore.logs.model.partition_directory import (
    Keep,
    PartitionDirectory,
    PartitionFile,
    ProposedFile,
    Write,
)
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.recovery.loading import started_with
from logcore.logs.recovery.losses import Bounds, Loss, is_damaged, kept_damage
from logcore.logs.recovery.proposal import RecoveryPlan
from logcore.logs.recovery.segment_recovery import (
    IndexRules,
    Recover,
    RecoveredSegment,
    WouldNotStart,
    recover_segment,
    watched_recovery,
)
from logcore.logs.recovery.working_files import RecoveryStep
from logcore.records.varint import Buffer
from logcore.segments.filenames import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PRODUCER_SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_file_name,
)
from logcore.segments.startup import INDEX_SUFFIXES, is_plain_name

_TAILS = ("not-indexed", "bytes-after-segment")
_SIDE_SUFFIXES = (*INDEX_SUFFIXES, PRODUCER_SNAPSHOT_SUFFIX)


def plan_reindex(
    directory: PartitionDirectory,
    config: TopicConfig,
    *,
    line: BrokerLine = DEFAULT_LINE,
    as_of_ms: int,
    recover: Recover = recover_segment,
    read: Reader = read_plainly,
) -> RecoveryPlan:
    """Plan a rebuild of side files. All broker lines from 3.9 on write the same.

    `losses` has what was refused, and damage that a recovery does not see.
    """
    swapped = [name for name in directory.files if name.endswith(SWAP_SUFFIX)]
    if swapped:
        why = f"file {swapped[0]}: an interrupted cleaning decides which segments are the log; recover it first."
        return RecoveryPlan({}, refusal=why)
    logs = {name: file for name, file in sorted(directory.files.items()) if is_plain_name(name) and _is_log(name)}
    if not logs:
        return _plan(directory, {}, None, (), [])
    ends: dict[int, int] = {}

    def note_end(_: Buffer, base_offset: int, result: RecoveredSegment) -> None:
        ends[base_offset] = base_offset if result.is_odd else result.next_offset

    recover = watched_recovery(recover, note_end)
    whole = _all_at_once(directory, logs, config, as_of_ms, recover)
    if whole is None:
        whole = _one_by_one(directory, logs, config, as_of_ms, recover, read)
    begins = int(min(logs)[:20])
    start, end = max(directory.log_start_offset or 0, begins), max((begins, *ends.values()))
    losses = list(whole.losses)
    refused = {loss.file for loss in losses if loss.kind == "damaged-segment"}
    tails = {loss.file: loss.position for loss in losses if loss.kind in _TAILS}
    bases = [int(name[:20]) for name in logs]
    for name, base_offset, next_base in zip(logs, bases, [*bases[1:], None], strict=True):
        content = memoryview(logs[name].content)[: tails.get(name)]
        if name not in refused and is_damaged(content, base_offset, next_base, read):
            losses += kept_damage(content, base_offset, Bounds(next_base, directory.high_watermark))
    return replace(whole, losses=tuple(losses), log_start_offset=start, log_end_offset=end)


def _one_by_one(
    directory: PartitionDirectory,
    logs: dict[str, PartitionFile],
    config: TopicConfig,
    as_of_ms: int,
    recover: Recover,
    read: Reader,
) -> RecoveryPlan:
    """The plan if not all bytes of the segments are batches."""
    rules = IndexRules(config.index_interval_bytes, config.segment_index_bytes)
    losses: list[Loss] = []
    sound, made = _indexes(logs, rules, recover, read, losses, as_of_ms)
    first_damaged = next((int(name[:20]) for name in logs if name not in sound), None)
    believed = {name: file for name, file in sound.items() if first_damaged is None or int(name[:20]) < first_damaged}
    steps: tuple[RecoveryStep, ...] = ()
    if believed:
        try:
            derived, steps = _derived(directory, believed, config, as_of_ms, recover)
        except WouldNotStart as error:
            losses.append(Loss("damaged-segment", error.file or "", f"producers cannot be replayed: {error}"))
            first_damaged = min(int(name[:20]) for name in logs)
        else:
            made |= derived
    return _plan(directory, made, first_damaged, steps, losses)


def _all_at_once(
    directory: PartitionDirectory,
    logs: dict[str, PartitionFile],
    config: TopicConfig,
    as_of_ms: int,
    recover: Recover,
) -> RecoveryPlan | None:
    """The plan if all segments are sound, read once; None if one of them is not."""

    def refuse_damage(content: Buffer, _: int, result: RecoveredSegment) -> None:
        if result.is_odd or result.valid_bytes < len(content):
            raise WouldNotStart("it is damaged")

    try:
        made, steps = _derived(directory, logs, config, as_of_ms, watched_recovery(recover, refuse_damage))
    except WouldNotStart:
        return None
    return _plan(directory, made, None, steps, [])


def _plan(
    directory: PartitionDirectory,
    made: dict[str, ProposedFile],
    first_damaged: int | None,
    steps: tuple[RecoveryStep, ...],
    losses: list[Loss],
) -> RecoveryPlan:
    files, dropped = _with_the_rest(directory, made, first_damaged)
    return RecoveryPlan(dict(sorted(files.items())), dropped, steps, tuple(losses), directory.root_lines)


def _is_log(name: str) -> bool:
    return name.endswith(LOG_SUFFIX)


def _indexes(
    logs: dict[str, PartitionFile],
    rules: IndexRules,
    recover: Recover,
    read: Reader,
    losses: list[Loss],
    as_of_ms: int,
) -> tuple[dict[str, PartitionFile], dict[str, ProposedFile]]:
    """The sound segments, as far as they are valid, and the offset and time indexes of each."""
    sound: dict[str, PartitionFile] = {}
    made: dict[str, ProposedFile] = {}
    following = dict(pairwise(logs))
    for name, file in logs.items():
        base_offset, next_name = int(name[:20]), following.get(name)
        next_base = None if next_name is None else int(next_name[:20])
        content = file.content
        try:
            result = recover(content, base_offset, rules)
        except LogError as error:
            losses.append(Loss("damaged-segment", name, f"its indexes cannot be built: {error.message}"))
            continue
        left = file.size - result.valid_bytes
        is_whole = next_base is None or result.next_offset == next_base
        if left and is_whole and not result.is_odd:
            is_whole = not is_damaged(content, base_offset, next_base, read, fetched=file.fetched)
        if result.is_odd or (left and not is_whole):
            why = result.stopped_by or ("impossible offsets" if result.is_odd else "an incomplete batch")
            message, at = f"its side files stay: {why}", result.next_offset
            losses.append(
                Loss("damaged-segment", name, message, result.valid_bytes, left, None if result.is_odd else at)
            )
            continue
        if left:
            why = (
                "is not a whole batch and"
                if result.stopped_by is None
                else f"has no sound batch ({result.stopped_by}) and"
            )
            kind, message = "not-indexed", f"the end of the log {why} is not indexed"
            if next_base is not None:
                kind, message = "bytes-after-segment", "bytes after the last offset of the segment are not indexed"
            losses.append(Loss(kind, name, message, result.valid_bytes, left, result.next_offset))
        sound[name] = file.beginning(result.valid_bytes, file.modified_ms) if left else file
        made[segment_file_name(base_offset, OFFSET_INDEX_SUFFIX)] = Write(result.offset_index, as_of_ms)
        made[segment_file_name(base_offset, TIME_INDEX_SUFFIX)] = Write(result.time_index, as_of_ms)
    return sound, made


def _derived(
    directory: PartitionDirectory,
    logs: dict[str, PartitionFile],
    config: TopicConfig,
    as_of_ms: int,
    recover: Recover,
) -> tuple[dict[str, ProposedFile], tuple[RecoveryStep, ...]]:
    """All side files of segments, by a recovery of only these.

    Raises:
        WouldNotStart: A broker would not start on them.
    """
    _, loading = started_with(directory, logs, config, as_of_ms, recover)
    if {segment_file_name(base) for base in loading.disk.bases()} != set(logs):
        raise WouldNotStart("a start would split a segment of it, because its offsets have too wide a range")
    made = {name: file for name, file in loading.disk.files.items() if name.endswith(_SIDE_SUFFIXES)}
    return made, tuple(loading.disk.steps)


def _with_the_rest(
    directory: PartitionDirectory, made: dict[str, ProposedFile], first_damaged: int | None
) -> tuple[dict[str, ProposedFile], dict[str, str]]:
    """The new directory: the built files, unless they exist already, and everything else as it is."""
    files: dict[str, ProposedFile] = {}
    dropped: dict[str, str] = {}
    for name, file in directory.files.items():
        has_segment = name[:20] + LOG_SUFFIX in directory.files
        is_kept = not is_plain_name(name) or _is_log(name)
        if is_kept or (first_damaged is not None and int(name[:20]) >= first_damaged):
            files[name] = Keep(name)
        elif name not in made and name.endswith(TRANSACTION_INDEX_SUFFIX) and has_segment:
            made[name] = Write(b"", file.modified_ms)  # as a recovery leaves an index without entries
        elif name not in made:
            dropped[name] = "nothing in the log needs it"
    for name, proposed in made.items():
        source = directory.files.get(name)
        content = proposed.content if isinstance(proposed, Write) else b""
        is_same = source is not None and source.size == len(content) and bytes(source.content) == content
        files[name] = Keep(name) if is_same else proposed
    return files, dropped
