"""Decoded tables of topics: where they are, their commits, and whether they have every row."""
