"""The job `decode`: keys and values of `records` become typed columns of `decoded/<topic>`."""
