"""A walk over a segment's bytes, and what it does after damage."""
