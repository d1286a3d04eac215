"""The content of Dagster's pages about a lake: metadata, tables and pictures, made from the values of the view."""
