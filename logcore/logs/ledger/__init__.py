"""Building and rebuilding the offset ledger of a log."""
