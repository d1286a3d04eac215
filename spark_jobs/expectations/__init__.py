"""The job `expectations`: Great Expectations over what was published."""
