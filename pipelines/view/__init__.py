"""A lake as people see it: its logs and their state, what still holds, pictures, tables of metadata."""
