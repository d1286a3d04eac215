"""What `recover`, `reindex`, `retain` and `compact` share."""
