"""The job `verify`: the verification of one part of a lake."""
