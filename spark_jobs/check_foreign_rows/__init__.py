"""The job `check_foreign_rows`: the comparison of other engines' files with the archive."""
