"""What `verify` checks: batches, indexes, whole logs."""
