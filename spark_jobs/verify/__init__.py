"""The job `verify`: the check of source logs."""
