"""Kernels of the log cleaner."""
