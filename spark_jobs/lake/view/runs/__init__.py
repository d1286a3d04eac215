"""The lake's own history of its runs.

unfinished_run  what a run did so far
run_rows        the rows of the table `runs`
"""
