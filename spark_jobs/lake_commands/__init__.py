"""Commands of `loglake` that work on a lake without Dagster and without a JVM: options, printing, exit codes.

What they do lies in `spark_jobs.lake`, `spark_jobs.lake_proof` and the jobs.
"""
