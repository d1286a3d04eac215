"""The job `expectations`: checks of what was published, in the table itself."""
