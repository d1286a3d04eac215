"""The job `compaction`: rounds of the log cleaner over archived logs, in one task a log or spread over many."""
