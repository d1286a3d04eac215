"""Where bytes come from. The only package of `logcore` that opens files; nothing in it writes to a source."""
