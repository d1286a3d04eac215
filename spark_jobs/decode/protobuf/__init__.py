"""Protobuf schemas in text: their compiler, and the files that they may import without a reference."""
