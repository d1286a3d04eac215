"""The steps of a run that write tables of topics, and the checks of these tables."""
