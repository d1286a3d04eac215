"""Decoded tables of topics as checks and pages show them."""
