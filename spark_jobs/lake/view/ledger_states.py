"""The states of the offset ledger for users: their order, their meaning, and which of them are damage."""

from __future__ import annotations

from collections.abc import Mapping

from spark_jobs.lake.ledger.frontier import LedgerRow
from spark_jobs.lake.segments.removals import Archived

MEANINGS: Mapping[str, str] = {
    "present": "records that a consumer sees",
    "control": "transaction markers and other records of Kafka's own",
    "aborted": "records of aborted transactions",
    "open": "not final yet: an open transaction, or above the high watermark",
    "compacted": "gone by cleaning",
    "empty": "batches that cleaning left without records",
    "trimmed": "below the log start when first taken in",
    "remote": "in the remote tier, and not read from there",
    "unknown": "a transaction's outcome is lost",
    "missing": "gone, and nothing explains it",
    "corrupt": "bytes that cannot be trusted",
}
"""What each state means."""

EVIDENCE: Mapping[str, str] = {
    "high-watermark": "at or above the high watermark",
    "transaction": "at or above the first offset of an open transaction",
    "log-start-offset": "below the log start when the log was first ingested",
    "no-leader-epochs": "below the first segment; `leader-epoch-checkpoint` is missing, so they may be remote or gone",
    "stale-log-start": "below the first segment; the log start in the checkpoint file is outdated",
    "remote-tier": "in the remote tier: the checkpoint file and the leader epochs both show it",
    "cleaner-checkpoint": "below the offset up to which the broker's cleaner had cleaned",
    "cleanup-policy": "the policy has `cleanup.policy: compact`, so gaps are allowed",
    "cleaned-batch": "below a batch that only cleaning leaves; cleaning begins at the start of a log",
    "no-remote-sign": "below the first segment: deleted by hand, or in a remote tier that left no sign",
    "segments-removed": "below the first segment; index files are left of segments that somebody removed",
    "no-explanation": "nothing explains the gap",
    "trimmed-before-ingest": "the source removed the offsets before they were ingested",
    "given-up": "after the log's end when a run with `--high-watermark log-end` gave them up",
    "source-cleaned": "the source cleaned the offsets before they were ingested",
    "marker-lost": "the marker of the transaction is lost",
    "filled-late": "found in another copy later; published as a replacement",
    "changed-after-publishing": "validated again with another result after the range was published",
    "unreadable": "only of `loglake ledger`: the last segment cannot be read",
}
"""What each value of `evidence` means. In a corrupt range it is one of the reasons of quarantine instead."""

STATES = tuple(MEANINGS)
"""Ledger states in the order in which they are shown."""

ALARMING = ("unknown", "missing", "corrupt")
"""Ledger states that mean damage; all others are normal."""


def is_alarming(row: LedgerRow) -> bool:
    """Return whether a range is damage now. What retention took with its segment would be gone in a sound log too."""
    return row.state in ALARMING and row.archived != Archived.RETAINED_AWAY
