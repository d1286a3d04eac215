"""The job `tidy_archive`: deletes files that are no longer needed, joins small slices."""
