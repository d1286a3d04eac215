"""Values of one column that several schemas wrote: their common type, and each value as that type."""
