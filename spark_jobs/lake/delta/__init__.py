"""The lake's Delta tables: their places, logs, files and commits."""
