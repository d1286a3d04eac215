"""The proof of a lake from its own bytes: ``loglake verify LAKE``, and what the job ``prove`` compares.

state       what the state tables contain: segments, validations, ledger, frontiers
archive     archived files against their digests, validations and quarantined bytes
commits     the log of each table: versions, commit files, checkpoints
files       data files: size, pages, statistics, row digest, offsets
comparison  rows of ``records`` against the archive
ledger      each log: the ledger against segments, batches and rows
"""
