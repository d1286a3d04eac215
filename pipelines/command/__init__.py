"""`loglake run` and `loglake demo`: a run of Dagster in this process, and what it prints."""
