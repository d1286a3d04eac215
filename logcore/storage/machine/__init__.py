"""What the compiled engine needs of this machine: object code, shared libraries, memory."""
