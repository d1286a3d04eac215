"""A run over a lake without Dagster: its settings, steps, checks and outcome."""
