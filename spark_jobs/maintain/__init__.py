"""The job `maintain`: upkeep of archive and tables."""
