"""The job `validate`: batches, transactions and the offset ledger of what was archived."""
