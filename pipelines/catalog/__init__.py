"""How lakes appear in Dagster's catalog: names and keys, descriptions, columns and lineage of assets."""
