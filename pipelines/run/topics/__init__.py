"""The steps of a run that write tables of topics and of the cluster, and the checks of these tables."""
