"""Values that say what a log, its offsets, producers and transactions are."""
