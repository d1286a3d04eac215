"""The command `views`: SQL views over the Parquet files of a lake's tables, for programs without Delta."""
