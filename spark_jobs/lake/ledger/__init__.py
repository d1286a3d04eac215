"""What a lake knows of each offset: ledger, frontier, findings, transactions."""
