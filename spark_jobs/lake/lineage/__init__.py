"""From a row to the bytes that it came from, and back."""
