"""Decoded keys and values: what the bytes of a record's key or value mean, as Arrow columns."""
