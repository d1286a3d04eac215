"""Files that somebody packed, by their first bytes. A segment does not begin so: its first bytes are a base offset."""

from __future__ import annotations

from logcore.records.varint import Buffer

HEAD_SIZE = 262
"""As many first bytes show all kinds."""
_KINDS = (
    (0, b"\x1f\x8b", "a gzip file"),
    (0, b"\x28\xb5\x2f\xfd", "a zstd file"),
    (0, b"\xfd7zXZ\0", "an xz file"),
    (0, b"\x04\x22\x4d\x18", "an lz4 file"),
    (0, b"BZh", "a bzip2 file"),
    (0, b"PK\x03\x04", "a zip file"),
    (257, b"ustar", "a tar file"),
)


def packed_kind(head: Buffer) -> str | None:
    """What the file is that begins with these bytes, such as `a gzip file`; None if they show no such kind."""
    begin = bytes(head[:HEAD_SIZE])
    return next((kind for at, magic, kind in _KINDS if begin[at : at + len(magic)] == magic), None)
