"""Commits to Delta tables, with their guards."""
