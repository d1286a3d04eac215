"""The options of commands, and the read options that they mean."""
