"""The newest row of each key of a log, in bounded memory."""
