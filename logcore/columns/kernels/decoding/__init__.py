"""Kernels that walk batches, inflate them and write records and lines."""
