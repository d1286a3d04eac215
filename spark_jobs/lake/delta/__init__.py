"""The lake's Delta tables: declarations, commits, live files."""
