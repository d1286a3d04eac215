"""One module for each command of `loglake` that reads logs."""
