"""What the last run saw of each table, and the cheap checks that compare a lake with it."""
