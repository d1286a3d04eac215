"""The newest row of each key: ``loglake state``, and ``loglake latest``.

state_command  ``loglake state``: options, lines, exit codes, and the state as a Parquet file or a Delta table
latest_tables  ``loglake latest``: its options, lines, exit codes
"""
