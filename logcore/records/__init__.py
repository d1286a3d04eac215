"""What a record batch is: its bytes, its codecs, its records, and the one encoder that writes them."""
