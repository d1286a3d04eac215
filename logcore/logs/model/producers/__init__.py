"""Producers of a log: what a broker remembers of them, and who they are at an offset."""
