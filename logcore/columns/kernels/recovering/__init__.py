"""The kernel of a segment's recovery."""
