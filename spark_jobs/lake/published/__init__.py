"""Which rows of each log are published, gone or withdrawn."""
