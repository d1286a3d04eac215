"""Record batches: their bytes, codecs and records, and the one encoder that writes them."""
