"""The row of a run in the table `runs`."""
