"""Wire forms: how a record names the schema that wrote its key or value."""
