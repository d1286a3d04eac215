"""Dagster as a thin shell: what runs when, and what a person sees of it. The work is done in :mod:`spark_jobs`.

Nothing is wired by importing this package; :mod:`pipelines.definitions` assembles it.
"""
