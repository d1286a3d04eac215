"""Kernels that decode keys and values of records."""
