"""Where the bytes of a lake lie, and who may write them."""
