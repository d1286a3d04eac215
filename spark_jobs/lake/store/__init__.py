"""Where the bytes of a lake are, and which process may write them."""
