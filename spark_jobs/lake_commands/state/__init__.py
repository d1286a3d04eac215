"""``loglake state``: the newest row of each key below an offset or a time.

command       options, lines, exit codes
cuts          the first offset of each log that does not belong to the state
completeness  offsets below it whose records the lake never had, or no longer has
output        the state as a Parquet file or a Delta table
"""
