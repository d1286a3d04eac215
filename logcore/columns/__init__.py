"""Records as Arrow columns: the schema of the `records` table, and the engines that fill it."""
