"""Kernels that find batches, decompress them, and write records and lines."""
