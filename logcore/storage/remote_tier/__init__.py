"""Remote storage of tiered topics: what lies there, and segments in it as files that are open for reading."""
