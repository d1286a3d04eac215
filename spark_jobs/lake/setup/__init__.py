"""A lake's identity and policies, and the registry of lakes."""
