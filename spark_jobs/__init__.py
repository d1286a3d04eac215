"""Jobs over many log files: each plans with ``lake`` (no JVM), has workers run its tasks, and reports.

``logcore`` defines what the bytes mean; ``pipelines`` defines what runs when.
"""
