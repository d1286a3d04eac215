"""The log cleaner over many batches at a time: map of newest offsets, rewritten batches, indexes."""
