"""Data files of Delta tables: written, listed, read, and the digest of their rows."""
