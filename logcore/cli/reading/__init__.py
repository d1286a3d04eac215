"""The input of commands: arguments, selections, logs."""
