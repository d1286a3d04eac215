"""The library under the model's histories: a log becomes a partition directory, its plans become a log again."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from logcore.logs.compaction.cleaner import Cleaner
from logcore.logs.compaction.compaction_plan import CompactionPlan, plan_compaction, run_compaction
from logcore.logs.compaction.selection import Refusal
from logcore.logs.model.broker_line import BrokerLine
from logcore.logs.model.partition_directory import Cut, Keep, PartitionDirectory, PartitionFile, Proposal, Write
from logcore.logs.model.topic_config import TopicConfig
from logcore.logs.recovery.proposal import RecoveryPlan
from logcore.logs.recovery.recovery_plan import plan_recovery
from logcore.logs.retention.retention_plan import plan_retention
from logcore.segments.filenames import TopicPartition
from tests.model.batches import aborted_entries, indexes, transaction_index
from tests.model.checker import Cleaned, Kept, Settings
from tests.model.checker import Cleaner as ModelCleaner
from tests.model.reference_log import ReferenceLog, Segment

INTERVAL, WIDE_INTERVAL = 100, 4096
"""index.interval.bytes: small, so that the logs of a history have entries; Kafka's own where the map may be full. There
a round may begin in the middle of a segment, at an index entry behind the marker of an abort. Kafka has then activated
the abort but never meets its marker, takes what the producer wrote next for aborted too, and does not map it: an older
value stays beside it, and comes back where it was a tombstone. The bytes are to be a broker's, so ours do the same."""


def interval_of(settings: Settings) -> int:
    """For logs of these settings."""
    return INTERVAL if settings.max_keys is None else WIDE_INTERVAL


def directory(
    log: ReferenceLog, *, is_clean: bool = True, with_indexes: bool = True, interval: int = INTERVAL
) -> PartitionDirectory:
    """The log as a broker that stopped in order leaves it; without snapshots, which hold nothing that the log does not.

    with_indexes: else there are logs and transaction indexes alone, as in an archive.
    """
    files = {}

    def put(name: str, content: bytes, modified_ms: int) -> None:
        files[name] = PartitionFile(name, content, modified_ms)

    for segment in log.segments:
        stem = f"{segment.base_offset:020d}"
        put(f"{stem}.log", segment.content, segment.modified_ms)
        if with_indexes:
            offsets, times = indexes(segment.content, segment.base_offset, interval)
            put(f"{stem}.index", offsets, segment.modified_ms)
            put(f"{stem}.timeindex", times, segment.modified_ms)
        if segment.aborted:
            put(f"{stem}.txnindex", transaction_index(segment.aborted), segment.modified_ms)
    put("leader-epoch-checkpoint", b"0\n1\n0 0\n" if log.end else b"0\n0\n", log.clock_ms)
    return PartitionDirectory(
        topic_partition=TopicPartition("history", 0),
        files=files,
        recovery_point=log.end if is_clean else 0,
        log_start_offset=log.log_start or None,
        high_watermark=log.high_watermark,
        first_dirty_offset=log.first_dirty,
        is_clean=is_clean,
    )


def config(settings: Settings, *policies: str) -> TopicConfig:
    """The topic's configuration."""
    return TopicConfig(
        cleanup_policy=policies,
        retention_ms=settings.retention_ms,
        retention_bytes=settings.retention_bytes,
        delete_retention_ms=settings.delete_retention_ms,
        producer_id_expiration_ms=settings.producer_expiration_ms,
        segment_bytes=1 << 20 if settings.groups else 14,
        index_interval_bytes=interval_of(settings),
        min_cleanable_dirty_ratio=0.0,
        # Slots of 24 bytes, filled to nine tenths: 24 * ceil(10 * keys / 9).
        log_cleaner_dedupe_buffer_size=None if settings.max_keys is None else -(-10 * settings.max_keys // 9) * 24,
    )


def contents(files: Proposal, source: PartitionDirectory) -> dict[str, tuple[bytes, int]]:
    """Bytes and time of change of every file that a proposal names."""
    found = {}
    for name, file in files.items():
        match file:
            case Keep(origin):
                kept = source.files[origin]
                found[name] = bytes(kept.content), kept.modified_ms
            case Cut(origin, size, modified_ms):
                found[name] = bytes(source.files[origin].content[:size]), modified_ms
            case Write(content, modified_ms):
                found[name] = bytes(content), modified_ms
    return found


def segments(files: dict[str, tuple[bytes, int]]) -> tuple[Segment, ...]:
    """The segments of a directory's files, ascending."""
    return tuple(
        Segment(
            base_offset=int(name[:20]),
            content=content,
            modified_ms=modified_ms,
            aborted=aborted_entries(files[name.replace(".log", ".txnindex")][0])
            if name.replace(".log", ".txnindex") in files
            else (),
        )
        for name, (content, modified_ms) in sorted(files.items())
        if name.endswith(".log")
    )


def retain(log: ReferenceLog, settings: Settings) -> Kept:
    """A pass of retention at the log's clock."""
    source = directory(log)
    plan = plan_retention(source, config(settings, "delete"), line=BrokerLine(settings.line), as_of_ms=log.clock_ms)
    return Kept(segments(contents(plan.files, source)), plan.new_log_start_offset)


def recover(log: ReferenceLog, recovery_point: int, *, salvage: bool = False) -> tuple[RecoveryPlan, dict[str, bytes]]:
    """What an unclean start makes of the log; its files by name."""
    source = replace(directory(log, is_clean=False), recovery_point=recovery_point)
    plan = plan_recovery(source, config(Settings(), "delete"), as_of_ms=log.clock_ms, salvage=salvage)
    return plan, {name: content for name, (content, _) in contents(plan.files, source).items()}


def recover_again(log: ReferenceLog, plan: RecoveryPlan, files: dict[str, bytes]) -> dict[str, bytes]:
    """The same of what it made."""
    source = replace(
        directory(log, is_clean=False),
        files={name: PartitionFile(name, content, log.clock_ms) for name, content in files.items()},
        recovery_point=0,
        log_start_offset=plan.root.log_start_offset,
        high_watermark=plan.root.high_watermark,
    )
    again = plan_recovery(source, config(Settings(), "delete"), as_of_ms=log.clock_ms)
    return {name: content for name, (content, _) in contents(again.files, source).items()}


def cleaner(*new_cleaners: Callable[[], Cleaner]) -> ModelCleaner:
    """A round of cleaning at the log's clock, done in each of these ways, all of which must leave the same."""

    def clean(log: ReferenceLog, settings: Settings) -> Cleaned | None:
        return clean_up_to(log, settings, None, *new_cleaners)

    return clean


def clean_up_to(
    log: ReferenceLog, settings: Settings, upper_bound: int | None, *new_cleaners: Callable[[], Cleaner]
) -> Cleaned | None:
    """The same with nothing at or above a bound touched."""
    interval = interval_of(settings)
    source = directory(log, interval=interval)
    plan = plan_compaction(
        source,
        config(settings, "compact"),
        line=BrokerLine(settings.line),
        as_of_ms=log.clock_ms,
        upper_bound=upper_bound,
    )
    if isinstance(plan, Refusal) or plan.why_not is not None:
        return None
    found = [_carried_out(plan, source, new(), interval) for new in new_cleaners]
    assert all(each == found[0] for each in found), "engines differ"
    return found[0]


def _carried_out(plan: CompactionPlan, source: PartitionDirectory, cleaner: Cleaner, interval: int) -> Cleaned:
    written: dict[str, tuple[bytes, int]] = {}

    @contextmanager
    def open_stream(name: str, modified_ms: int) -> Iterator[io.BytesIO]:
        stream = io.BytesIO()
        yield stream
        written[name] = stream.getvalue(), modified_ms

    outcome = run_compaction(plan, open_stream, cleaner)
    files = contents(outcome.files, source) | written
    for name, (content, _) in files.items():
        if name.endswith(".log") and name in written:
            made = files[name.replace(".log", ".index")][0], files[name.replace(".log", ".timeindex")][0]
            assert made == indexes(content, int(name[:20]), interval), f"I15: indexes of {name}"
    return Cleaned(segments(files), outcome.first_dirty_offset)
