"""What a lake records about each offset: ledger, frontier, findings, transactions."""
