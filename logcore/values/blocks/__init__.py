"""Blocks of rows become columns by kernels: programs of schemas, buffers, Arrow arrays. The same for every format."""
