"""What of a source is new, and whether it continues what is held."""
