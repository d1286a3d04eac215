"""One round of retention: which segments leave a log."""
