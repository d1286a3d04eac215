"""What is published of each log, and what of it is gone or withdrawn."""
