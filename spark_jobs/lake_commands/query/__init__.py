"""The command `query`: SQL over the tables of a lake, in this process."""
