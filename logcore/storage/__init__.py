"""Access to bytes: the only package of `logcore` that opens files. It never writes to a source."""
