"""What a segment and the files beside it are: names, batches in a row, indexes, checkpoints.

Works on bytes already read; opens no file. What a row of segments means belongs to `logcore.logs`.
"""
