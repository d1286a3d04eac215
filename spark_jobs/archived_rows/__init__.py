"""Rows that are made of archived bytes: of batches, of ``records``, and of ``records_uncommitted``."""
