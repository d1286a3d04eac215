"""Cleaning of one log by many tasks: `spread_cleaning` is the entry, `steps` has the tasks."""
