"""Errors of a run: sentences for users, Dagster's failures, and interrupts."""
