"""Batches checked many at a time, by the rules of `logcore.logs.checks`."""
