"""Segments in chunks, as Aiven's plugin stores them: manifest, chunk index, chunk map, and the chunks themselves."""
