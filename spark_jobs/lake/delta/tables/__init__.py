"""Delta tables: where they are, their latest versions, how they are created and read, and the log of each."""
