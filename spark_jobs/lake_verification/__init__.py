"""The verification of a lake from its own bytes, and the comparison that ``check_foreign_rows`` uses.

whole_lake  the things of a lake as tasks: files first, then logs
state       what the state tables contain: segments, validations, ledger, frontiers
archive     archived files against their digests, validations and quarantined bytes
commits     the log of each table: versions, commit files, checkpoints
files       data files: size, pages, statistics, row digest, offsets
comparison  rows of ``records`` against the archive
ledger      each log: the ledger against segments, batches and rows
"""
