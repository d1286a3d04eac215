"""A lake's identity and place, and the registry of lakes."""
