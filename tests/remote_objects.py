"""Objects as Aiven's plugin stores them, built from its published layout and not with our code.

The RSA key was made for these tests. `WRAPPED_KEY` and `ENCRYPTED` were made by BouncyCastle, as the plugin uses it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import zstandard

KEY_ID = "static-key-id"
PRIVATE_KEY = b"""-----BEGIN PRIVATE KEY-----
MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQC5nDZZ00vDHn3o
E9qV2F/mvGUcL5h21eJ65HjYDm/2lxkTX3cvmJLC6UJJnwjEZ54Wr70ysK4q51MC
LXoAw8LnyeXCYiIolm1+wTFlzYc4cucLR29EpgO1hB5TWEHCaKorqjL8cr0WqcVq
iA3u9XNoeaj8YMMefrGHUYrOm2xg9lMoQ0S98NmTOnasepr79FugoQ0eyehKqSZd
3Xlb5FFkxnymgPNHtZ/Xw9ozMTyvNY8e7ehZg8NxWZQAkNyNZt/ec2r//DEzX6hV
HOQXxezr9KIfbcj6cfsDNL9WmY9utA7waY6yrsWnvJDR4LhZk99hEEnZq1IkbwK7
LXsi10R9AgMBAAECggEAAy7cICc6leKIeznkvKW3/OkYyZmnwWX1zj2FZ8/uxWmE
ixICJViC/JrrQZlbstT235Ts9DKwEfLjBNcKnOFYKG+mCoxyeuq1fwAWKXsTiUX8
xozXkI0eSpC09zq8vSl2JAb1SXuepYXzNkDJQfwgmgqRrNGF/X7KHmcPr9WRHFdY
zKDkv++pBWZlmDTaoNyVTx4EQngoJnDLRulA49MpniRWmRoE+JzOngFVxp9WdQNK
Gw1a1zWLDDVjS/+kLRV8QdvbQRGItxRX5gj5UDTO2NHtCwyMI1pxYZ6n603S0BLJ
ZkYWBPR/c9zHB5m8Zu99HAIohqWUL3gfSjI/sVUnIQKBgQDja09Sy27SGA0qLsTb
5c5Ro8Exj36efwvVz8TiZFfL8+hemzPK2IH/TA4eJ4k8UTjYvLIAgNmFsjP8URpV
N4hA74XE+NW/k0yJh+Vr4ioWtzw63U8DRBA1RxOjh+peLIy59TBk0A952Jd8wXWP
ikczdbb9D8RooXNfw885q9akrQKBgQDQ78ttpZuSqamTa6LVORZOY7XiJU4bt2aH
rRzNqVc2IKGiE/+g4FJBrFyEowMGu8C79G5cNCT6W6sAQvDUHR20vpFfY2FZ3WzB
jdrjs9auub+/BuZmbr//Ez77+RwW4eUIKSWNsDYD6JqFzIDAj+kwyHXmrK1MuI3+
Uu0e6kVJEQKBgQC89AgwTn6BaSJnDfzaiBHomxqFxyf5IK4AtGRthdm8x6cmE+Xw
f/ti1xpTy52m1AVbb0ymRmh1QR8YYXpzm3RGH70Rb36JciWBj7v66yr1PMF6Vy6z
E/Yzjh6vHNqJ7JHwX9wZpxV0s5UKPuMipE2MYB3uHQ+fr6VgyByBWlk48QKBgCIf
N1rV0/10xeP0jShDZXgx4o9nRkVSg2UfCXgw8rQ9SghdOb89Q1HEY2up76GW4hgQ
CEH4ph1ZASlOxWPuyV4uTTGF2m1BszQ9BYVwZlwsq7r31oLeDW8L5ppiCYtXIv9d
MOvd3kRvJWU6i8BnAE9ePZsJklfYQCBLzLviyKPxAoGBAKASF585GWtexcYdNmgy
Rl+U2oosTfvfFtoM/sf/UjcA+nO0T9cgcjnUDAseuIHpr9qMiZrdFvD3aByG5LY+
e7m7ju64wnztX4w0eCa4hjX2s2d9IOdP8Vws6LIXbBIM3U+kKcuBNDuuEz3tfnEJ
SkoyLaxa8bKEiKJvHw3a6W55
-----END PRIVATE KEY-----
"""
AES_KEY = bytes(range(32))
AAD = bytes(range(100, 132))
WRAPPED_KEY = (
    "StU9bYU1y8BaZcQP8ObLBas4X7B02tmorroASkr8fxLsv8kSxNV9bg0qdVswnO6Z3zZeUDUBfIxw8J/VwuoonnYkNMz8XO6x"
    "kR2g55+2FUove1b/p7UPJnuH3xlPWtiidVlHxLu9cH4M1TxzU2z2RcbTURd2TaQ0KqfP8sIyvNWLYPWNAUXOD4lku4VMmE8+"
    "Fw6T2L5kk4/6rW6MqWuoACKlcZ5OqCErPGQsHF3xewcKsbe3Ft5iyJX1lH5dnakjr5v2Km8KIM0Hfs6R2msO5bgPKIwuwozz"
    "+m0dKGkwugRQNs8se8TUTMGdv2kCv4DdcwJQaRu9MGKgIH1KNhh8uw=="
)
"""`AES_KEY`, encrypted with the public key: RSA/NONE/OAEPWithSHA3-512AndMGF1Padding of BouncyCastle 1.78.1."""
ENCRYPTED = base64.b64decode("dHdlbHZlIGJ5dGVz") + base64.b64decode("yPyXmxd61c0/1VMhsoiWdJipgVXOQH1uUNBcgQRPTAxVQQ==")
"""IV, ciphertext and tag of `PLAIN` with `AES_KEY` and `AAD`: AES/GCM/NoPadding of the JDK."""
PLAIN = b"bytes of a segment"


@dataclass(frozen=True)
class StoredSegment:
    """The three objects of a segment."""

    log: bytes
    indexes: bytes
    manifest: bytes


def encrypted(content: bytes, number: int) -> bytes:
    """A chunk as the plugin encrypts it; the IV depends on the number only, so that objects are the same every time."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    iv = hashlib.sha256(b"%d" % number).digest()[:12]
    encryptor = Cipher(algorithms.AES256(AES_KEY), modes.GCM(iv)).encryptor()
    encryptor.authenticate_additional_data(AAD)
    return iv + encryptor.update(content) + encryptor.finalize() + encryptor.tag


def size_list(sizes: Sequence[int]) -> bytes:
    """The list of sizes of stored chunks."""
    if len(sizes) < 2:
        return struct.pack(f">i{len(sizes)}i", len(sizes), *sizes)
    base = min(sizes[:-1])
    width = max(1, -(-max(size - base for size in sizes[:-1]).bit_length() // 8))
    packed = b"".join((size - base).to_bytes(width, "big") for size in sizes[:-1])
    return struct.pack(">iib", len(sizes), base, width) + packed + struct.pack(">i", sizes[-1])


def stored_segment(
    log: bytes,
    indexes: dict[str, bytes],
    *,
    chunk_size: int,
    compressed: bool = False,
    is_encrypted: bool = False,
    variable: bool | None = None,
) -> StoredSegment:
    """Store a segment.

    Args:
        log: The segment.
        indexes: Its indexes by their names in the manifest: offset, timestamp, producerSnapshot, leaderEpoch,
            transaction.
        chunk_size: Bytes of a chunk.
        compressed: With zstd.
        is_encrypted: With `AES_KEY`.
        variable: Whether the chunk index has all sizes; by default as the plugin: with compression.
    """
    pieces = [log[at : at + chunk_size] for at in range(0, len(log), chunk_size)]
    compressor = zstandard.ZstdCompressor(write_content_size=True)
    if compressed:
        pieces = [compressor.compress(piece) for piece in pieces]
    if is_encrypted:
        pieces = [encrypted(piece, number) for number, piece in enumerate(pieces)]
    sizes = [len(piece) for piece in pieces]
    chunk_index: dict[str, object] = {"originalChunkSize": chunk_size, "originalFileSize": len(log)}
    if compressed if variable is None else variable:
        packed = base64.b64encode(compressor.compress(size_list(sizes))).decode()
        chunk_index |= {"type": "variable", "transformedChunks": packed}
    else:
        chunk_index |= {
            "type": "fixed",
            "transformedChunkSize": sizes[0],
            "finalTransformedChunkSize": sizes[-1],
        }
    stored, places = b"", {}
    for number, name in enumerate(("offset", "timestamp", "producerSnapshot", "leaderEpoch", "transaction")):
        content = indexes.get(name)
        if content is None:
            places[name] = None
            continue
        piece = encrypted(content, 1000 + number) if is_encrypted and content else content
        places[name] = {"position": len(stored), "size": len(piece)}
        stored += piece
    manifest: dict[str, object] = {
        "version": "1",
        "chunkIndex": chunk_index,
        "segmentIndexes": places,
        "compression": compressed,
    }
    if is_encrypted:
        aad = base64.b64encode(AAD).decode()
        manifest["encryption"] = {"dataKey": f"{KEY_ID}:{WRAPPED_KEY}", "aad": aad}
    return StoredSegment(b"".join(pieces), stored, json.dumps(manifest).encode())


INDEXES = {
    "offset": ".index",
    "timestamp": ".timeindex",
    "producerSnapshot": ".snapshot",
    "leaderEpoch": ".leader_epoch_checkpoint",
    "transaction": ".txnindex",
}
"""Ends of names in LocalTieredStorage, by the names in a manifest of Aiven's plugin."""


def as_aiven_stores(files: Path, target: Path, *, chunk_size: int = 700, **options: bool) -> None:
    """Store the segments of a LocalTieredStorage below a folder as Aiven's plugin does."""
    for log in files.rglob("*.log"):
        topic, _, partition = log.parent.name[:-23].rpartition("-")
        beside = {name: log.with_suffix(suffix) for name, suffix in INDEXES.items()}
        indexes = {name: path.read_bytes() for name, path in beside.items() if path.exists()}
        segment = stored_segment(log.read_bytes(), indexes, chunk_size=chunk_size, **options)
        folder = target / f"{topic}-{log.parent.name[-22:]}" / partition
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{log.stem}.log").write_bytes(segment.log)
        (folder / f"{log.stem}.indexes").write_bytes(segment.indexes)
        (folder / f"{log.stem}.rsm-manifest").write_bytes(segment.manifest)
