"""From a segment's bytes to rows: groups of batches, buffers, the fast and the careful way."""
