"""The files beside segments: indexes, producer snapshots, leader epochs, checkpoints."""
