"""Segments and the files beside them: names, batches, indexes, checkpoints.

Works on bytes that are already read, and opens no file. `logcore.logs` handles sequences of segments.
"""
