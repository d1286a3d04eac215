"""Schemas that a schema registry knows, by id or GUID."""
