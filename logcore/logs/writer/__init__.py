"""Writing a log as a broker does."""
