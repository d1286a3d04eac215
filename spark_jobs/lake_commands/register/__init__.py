"""`loglake register`: what another engine needs to find the tables of a lake by name."""
