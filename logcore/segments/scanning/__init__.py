"""The scan of a segment's bytes, and how it continues after damage."""
