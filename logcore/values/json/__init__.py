"""Values in JSON: strict text, a part of JSON Schema, and typed columns."""
