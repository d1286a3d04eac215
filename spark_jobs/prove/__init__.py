"""The job `prove`: the comparison of other engines' files with the archive."""
