"""A log that is appended to, as a broker appends."""
