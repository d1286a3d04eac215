"""Offsets of a log that no segment holds, and no cleaning explains: segments that are gone, and an end below the high
watermark.

Gaps follow the rules of the offset ledger, `logcore.logs.gaps`. Gaps between the batches of one segment are
not looked for: nothing is lost of a log by a recovery that leaves them, and `loglake ledger` shows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from logcore.logs.beyond_log_end import times_of_change
from logcore.logs.gaps import GapRules
from logcore.logs.partition_directory import PartitionDirectory
from logcore.logs.recovery.losses import Loss, lost_ranges, uncovered
from logcore.segments.filenames import segment_file_name


def missing_offsets(
    directory: PartitionDirectory,
    ends: Mapping[int, int],
    log_start_offset: int,
    rules: GapRules,
    losses: Sequence[Loss],
) -> Iterator[Loss]:
    """Losses of the kind `missing`, in the order of offsets.

    directory: before it is recovered. ends: by the base offset of each segment that stays, the offset behind its last
    batch that can be read. losses: those found before; offsets that one of them names are not missing too.
    """
    high_watermark = directory.high_watermark
    known = lost_ranges(losses)
    end: int | None = None
    for base_offset in sorted(ends):
        if end is not None and base_offset > end:
            file = segment_file_name(base_offset)
            message = f"no segment holds them: the one before it ends at offset {end}"
            yield from _missing(max(end, log_start_offset), base_offset, file, message, rules, known)
        end = max(end or 0, base_offset, ends[base_offset])
    if end is not None and high_watermark is not None:
        file = segment_file_name(max(ends))
        message = f"the log ends at offset {end}, below its high watermark {high_watermark}{_times(directory)}"
        yield from _missing(max(end, log_start_offset), high_watermark, file, message, None, known)


def _times(directory: PartitionDirectory) -> str:
    bases = directory.base_offsets
    if directory.high_watermark_ms is None or not bases:
        return ""
    last = directory.files[segment_file_name(bases[-1])]
    return f"; {times_of_change(directory.high_watermark_ms, last.name, last.modified_ms)}"


def _missing(
    start: int, end: int, file: str, message: str, rules: GapRules | None, known: Sequence[tuple[int, int]]
) -> Iterator[Loss]:
    for first, behind in uncovered(start, end, known):
        if rules is None or rules.loss(first, behind) is not None:
            yield Loss("missing", file, message, offset=first, first_offset=first, last_offset=behind - 1)
