"""How the offset ledger of a log is built, and built again."""
