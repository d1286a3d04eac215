"""From a segment's bytes to rows: tables of batches, buffers, the fast and the careful lane."""
