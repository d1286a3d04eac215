"""Retention with one fault each, `RETENTION_MUTANTS`: the checker must find every one."""

from __future__ import annotations

from dataclasses import replace

from tests.model.checker import Kept, Settings, expected_retention
from tests.model.reference_log import ReferenceLog


def naive_retention(log: ReferenceLog, settings: Settings) -> Kept:
    """The checker's own."""
    return expected_retention(log, settings)


def _keeps_all(log: ReferenceLog, settings: Settings) -> Kept:
    """Nothing ever goes."""
    return Kept(log.segments, log.log_start)


def _a_moment_early(log: ReferenceLog, settings: Settings) -> Kept:
    """A segment goes when its age is the limit, not only when it is above it."""
    return expected_retention(log, replace(settings, retention_ms=max(settings.retention_ms - 1, -1)))


def _ignores_the_high_watermark(log: ReferenceLog, settings: Settings) -> Kept:
    """What was never committed goes too."""
    return expected_retention(replace(log, high_watermark=None), settings)


def _ignores_the_log_start(log: ReferenceLog, settings: Settings) -> Kept:
    """Files that deleteRecords left stay."""
    kept = expected_retention(replace(log, log_start=0), settings)
    return Kept(kept.segments, max(log.log_start, kept.log_start))


def _below_the_limit(log: ReferenceLog, settings: Settings) -> Kept:
    """The size rule goes on until the log is below its limit."""
    limit = settings.retention_bytes
    longest = max(len(each.content) for each in log.segments)
    return expected_retention(log, replace(settings, retention_bytes=limit if limit < 0 else max(limit - longest, 0)))


def _no_new_segment(log: ReferenceLog, settings: Settings) -> Kept:
    """Where everything goes, the active segment stays."""
    kept = expected_retention(log, settings)
    if kept.segments[-1] not in log.segments:
        return Kept((log.active,), max(log.log_start, log.active.base_offset))
    return kept


def _one_a_time(log: ReferenceLog, settings: Settings) -> Kept:
    """A pass deletes one segment."""
    if expected_retention(log, settings).segments == log.segments or len(log.segments) == 1:
        return expected_retention(log, settings)
    left = log.segments[1:]
    return Kept(left, max(log.log_start, left[0].base_offset))


RETENTION_MUTANTS = (
    *(_keeps_all, _a_moment_early, _ignores_the_high_watermark, _ignores_the_log_start),
    *(_below_the_limit, _no_new_segment, _one_a_time),
)
