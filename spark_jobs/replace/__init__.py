"""The job `replace`: published offsets are written again from the archive."""
