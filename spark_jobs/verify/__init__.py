"""The job `verify`: the proof of one part of a lake."""
