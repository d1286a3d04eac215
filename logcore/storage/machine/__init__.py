"""Services of the machine for the compiled engine: object code and memory."""
