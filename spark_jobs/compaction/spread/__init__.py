"""Cleaning of one log by many tasks: `spread_cleaning` is the entry, `spread_steps` has the tasks."""
