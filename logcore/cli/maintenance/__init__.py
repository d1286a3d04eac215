"""Shared parts of `recover`, `reindex`, `retain` and `compact`."""
