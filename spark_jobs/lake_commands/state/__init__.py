"""The newest row of each key: ``loglake state``, and ``loglake latest``.

latest_tables ``loglake latest``: its options, lines, exit codes
command       ``loglake state``: options, lines, exit codes
cuts          the first offset of each log that does not belong to the state
completeness  offsets below it whose records the lake never had, or no longer has
output        the state as a Parquet file or a Delta table
"""
