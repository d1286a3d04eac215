"""``loglake metrics`` and ``loglake status``: figures of lakes, for Prometheus and for people.

command        options, exit codes, the file
lake_metrics   the figures of a lake, and their documented names
status         the command for people
text_format    figures as text
"""
