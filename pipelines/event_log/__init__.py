"""How events of a run reach Dagster's event log: many in one transaction, and many of one kind in one statement."""
