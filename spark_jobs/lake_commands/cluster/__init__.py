"""``loglake cluster``.

command         options, lines, exit codes
placement_text  the placement report for a terminal
"""
