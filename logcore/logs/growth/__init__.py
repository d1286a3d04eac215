"""What is new in a source, and whether it continues the archive."""
