"""Logs as commands and the library read them: which logs, which of their offsets, and the findings of a read."""
