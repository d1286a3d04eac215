"""Remote log segments (KIP-405): their names and bytes in remote storage, and which of them form a log. Pure values."""
