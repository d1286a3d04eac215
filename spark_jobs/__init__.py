"""Jobs over many log files: each plans with ``lake`` (no JVM), works with Spark, and reports.

What the bytes mean is decided in ``logcore``; what runs when is decided in ``pipelines``.
"""
