"""Commands of `loglake` that work on a lake without Dagster and without a JVM: options, printing, exit codes.

The work itself is done by `spark_jobs.lake`, `spark_jobs.lake_verification` and the jobs.
"""
