"""Checks of an installation for `loglake doctor`: each is a function that returns frozen values and changes nothing.

The command prints them. Other packages add their checks by entry points of the group `loglake.doctor`.
"""
