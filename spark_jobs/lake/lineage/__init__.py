"""From a row to the bytes of its record, and back."""
