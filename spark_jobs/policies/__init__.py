"""``policies.yaml``: its settings, how it is read, and the policies that it states."""
