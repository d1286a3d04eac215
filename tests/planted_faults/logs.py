"""Planted into what records, segments and logs are."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

FAULTS = (
    Fault(
        "good batches after a closed segment are left out",
        "logcore/segments/scanning/resynchronization.py",
        'return "no batch" if next(sound.following(position, 0), None) is None else None',
        'return "no batch"',
        ("tests/jobs/test_overlapping_segments.py", "-k", "only_good_copy"),
    ),
    Fault(
        "damage that the source no longer has is dropped with the only copy of offsets",
        "spark_jobs/ingest/late_segments.py",
        "and _has(source, above, reader):",
        "and (not above or above):",
        ("tests/jobs/test_overlapping_segments.py", "-k", "only_good_copy"),
    ),
    Fault(
        "skip the crc",
        "logcore/segments/scanning/scan.py",
        "        if not crc_matches(self._buf, position, header):\n            message = \"the batch's crc",
        "        if False:\n            message = \"the batch's crc",
        ("tests/unit/logcore/segments",),
    ),
    Fault(
        "trust a declared size",
        "logcore/records/record.py",
        "        return None, at\n    if length > end - at:",
        "        return None, at\n    if False:",
        ("tests/unit/logcore/records",),
    ),
    Fault(
        "no cap on what a codec gives",
        "logcore/records/compression.py",
        "            if total > limit:",
        "            if False:",
        ("tests/unit/logcore/records",),
    ),
    Fault(
        "an empty value is a tombstone",
        "logcore/records/record.py",
        "    if length < 0:\n        return None, at",
        "    if length <= 0:\n        return None, at",
        ("tests/unit/logcore/records",),
    ),
    Fault(
        "drop a marker",
        "logcore/logs/model/transactions.py",
        "        if batch.is_control:\n            self._mark(batch)\n            return",
        "        if batch.is_control:\n            return",
        ("tests/unit/logcore/logs",),
    ),
    Fault(
        "the frontier passes a corrupt range",
        "logcore/logs/model/offset_ledger.py",
        "OffsetState.UNKNOWN, OffsetState.MISSING, OffsetState.CORRUPT})",
        "OffsetState.UNKNOWN, OffsetState.MISSING})",
        ("tests/unit/logcore/logs",),
    ),
    Fault(
        "a marker after a loss decides what was open before it",
        "logcore/logs/model/transactions.py",
        "                    self._lose_sight(expected, batch.base_offset)",
        "                    pass",
        ("tests/unit/logcore/logs/test_transactions.py",),
    ),
    Fault(
        "a lost outcome is published",
        "logcore/logs/model/offset_ledger.py",
        "BLOCKING = frozenset({OffsetState.OPEN, OffsetState.UNKNOWN,",
        "BLOCKING = frozenset({OffsetState.OPEN,",
        ("tests/unit/logcore/logs/test_ledger_ranges.py",),
    ),
    Fault(
        "retention takes what is exactly as old as the limit",
        "logcore/logs/retention/retention.py",
        "_Verdict(age > limit,",
        "_Verdict(age >= limit,",
        ("tests/unit/logcore/logs",),
    ),
    Fault(
        "any history agrees with ours",
        "logcore/logs/growth/agreement.py",
        "        return (begins, header.partition_leader_epoch,",
        "        return True or (begins, header.partition_leader_epoch,",
        ("tests/unit/logcore/logs",),
    ),
    Fault(
        "a log is cut back whole although no leader epoch shows the fork",
        "logcore/logs/growth/divergence.py",
        "    if bound is None or bound > begin or begin",
        "    if begin",
        ("tests/unit/logcore/logs/test_divergence.py",),
    ),
    Fault(
        "a longer copy counts more than a later leader epoch",
        "logcore/logs/growth/copies.py",
        "        if each.epoch < newest and not each.is_without_epochs:",
        "        if False:",
        ("tests/unit/logcore/logs/test_copies.py",),
    ),
    Fault(
        "copies that nothing decides are used all the same",
        "logcore/logs/growth/copies.py",
        "        if undecided is None and fork is not None:",
        "        if False:",
        ("tests/unit/logcore/logs/test_copies.py",),
    ),
    Fault(
        "a copy of another history fills a hole",
        "logcore/logs/growth/fillers.py",
        "                return ()  # another history",
        "                pass",
        ("tests/unit/logcore/logs/test_fillers.py",),
    ),
    Fault(
        "what was filled in below the frontier counts as published",
        "logcore/logs/ledger/ledger_history.py",
        "return replace(each, published=False, evidence=EVIDENCE_FILLED)",
        "return replace(each, published=True, evidence=EVIDENCE_FILLED)",
        ("tests/unit/logcore/logs/test_ledger_history.py",),
    ),
)
