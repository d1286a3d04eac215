"""Files that somebody packed, by their first bytes. A segment does not begin so: its first bytes are a base offset."""

from __future__ import annotations

from logcore.records.varint import Buffer
from logcore.texts import shell_word

HEAD_SIZE = 262
"""As many first bytes show all kinds."""
_KINDS = (
    (0, b"\x1f\x8b", "a gzip file", "gunzip <"),
    (0, b"\x28\xb5\x2f\xfd", "a zstd file", "zstd -dc <"),
    (0, b"\xfd7zXZ\0", "an xz file", "xz -dc <"),
    (0, b"\x04\x22\x4d\x18", "an lz4 file", "lz4 -dc <"),
    (0, b"BZh", "a bzip2 file", "bunzip2 <"),
    (0, b"PK\x03\x04", "a zip file", "unzip -p"),
    (257, b"ustar", "a tar file", "tar -xOf"),
)

PROGRAMS = {".gz": "gunzip <", ".zst": "zstd -dc <", ".xz": "xz -dc <", ".lz4": "lz4 -dc <", ".bz2": "bunzip2 <"}
"""What unpacks a file whose name ends so."""


def packed_kind(head: Buffer) -> str | None:
    """What the file is that begins with these bytes, such as `a gzip file`; None if they show no such kind."""
    begin = bytes(head[:HEAD_SIZE])
    return next((kind for at, magic, kind, _ in _KINDS if begin[at : at + len(magic)] == magic), None)


def unpacking(said: str, path: str) -> str:
    """Return what unpacks a file in its place, as a part of a sentence. An object is unpacked in the working directory.

    Args:
        said: What :func:`packed_kind` returned, or a text that ends so.
        path: The file, as findings name it.
    """
    program = next(program for _, _, kind, program in _KINDS if said.endswith(kind))
    file, new = shell_word(path), shell_word(f"{path}.unpacked")
    if "://" in path:
        name = path.rpartition("/")[2]
        held, new = shell_word(f"{name}.packed"), shell_word(f"{name}.unpacked")
        return f"unpack it: `aws s3 cp {file} {held} && {program} {held} > {new} && aws s3 cp {new} {file}`"
    return f"unpack it: `{program} {file} > {new} && mv {new} {file}`"
