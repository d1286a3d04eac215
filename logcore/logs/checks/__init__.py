"""The checks of `verify`: batches, indexes, whole logs."""
