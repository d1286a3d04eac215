"""The output of commands: lines, columns, side files."""
