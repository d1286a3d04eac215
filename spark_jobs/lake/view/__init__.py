"""A lake as pages and commands read it: its logs and their state, open findings, alarms, harm, results of checks.

The modules have values and the functions that read them; other modules decide how they are shown. `pipelines` reads a
lake only here. Findings are recorded for later: in the table `findings`, in `tables.json` and in the operator's home.
"""
