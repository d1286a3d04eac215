"""``loglake metrics``: figures of lakes, for Prometheus.

command        options, exit codes, the file
lake_metrics   the figures of a lake, and their documented names
text_format    figures as text
"""
