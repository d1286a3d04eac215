"""The verification of decoded tables of topics."""
