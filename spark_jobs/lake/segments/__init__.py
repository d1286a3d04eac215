"""Archived segments: their tables, their bytes, their removal."""
