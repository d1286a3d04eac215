"""Parquet files of rows: what goes into them, how they are ordered, merged and rewritten."""
