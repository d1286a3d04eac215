"""One round of retention: the segments that are removed from a log."""
