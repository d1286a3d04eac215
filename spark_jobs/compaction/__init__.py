"""The job `compaction`: rounds of the log cleaner over archived logs."""
