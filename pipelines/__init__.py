"""Dagster as a thin layer: it schedules the work of :mod:`spark_jobs` and shows the results.

Importing this package wires nothing; :mod:`pipelines.definitions` assembles it.
"""
