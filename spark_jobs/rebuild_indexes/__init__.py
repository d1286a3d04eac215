"""The job `rebuild_indexes`: side files of archived segments."""
