"""`loglake ui`: Dagster's pages, and what they link to."""
