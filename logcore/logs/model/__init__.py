"""Values that describe a log, its offsets, producers and transactions."""
