"""The lake's own history of its runs.

run_rows        the rows of the table `runs`
run_ends        when runs last succeeded and failed
"""
