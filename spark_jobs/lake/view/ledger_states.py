"""The states of the offset ledger for users: their order, their meaning, and which of them are damage."""

from __future__ import annotations

from collections.abc import Mapping

MEANINGS: Mapping[str, str] = {
    "present": "records that a consumer sees",
    "control": "transaction markers and other records of Kafka's own",
    "aborted": "records of aborted transactions",
    "open": "not final yet: an open transaction, or above the high watermark",
    "compacted": "gone by cleaning",
    "empty": "batches that cleaning left without records",
    "trimmed": "below the log start when first taken in",
    "remote": "in the remote tier, which is not read",
    "unknown": "a transaction's outcome is lost",
    "missing": "a gap that nothing explains",
    "corrupt": "bytes that cannot be trusted",
}
"""What each state means."""

STATES = tuple(MEANINGS)
"""Ledger states in the order in which they are shown."""

ALARMING = ("unknown", "missing", "corrupt")
"""Ledger states that mean damage; all others are normal."""
