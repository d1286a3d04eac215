"""The job `ingest`: new bytes of source logs go into the archive."""
