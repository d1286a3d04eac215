"""Stored bytes become bytes of the segment again (Aiven's plugin): decryption, then decompression.

    encrypted chunk     12 bytes IV, ciphertext, 16 bytes tag: AES-256-GCM, authenticated with the manifest's `aad`
    compressed chunk    one zstd frame; compressed first, then encrypted
    index               encrypted as one chunk, never compressed; an empty index is stored as nothing

The AES key of a segment is in its manifest, encrypted with an RSA key: OAEP with SHA3-512, also in MGF1, and an empty
label. The private key comes from a PEM file (`read_private_key`); which one, says the key's ID. The package
cryptography reads the file and decrypts chunks, but its OAEP knows no SHA-3, so RFC 8017 is followed here. That takes
longer for some contents than for others. Nobody who sends contents can measure it: files are read, no service answers.

A chunk must give exactly the bytes that the chunk index says; a longer output is cut off by a limit while it is made.

Source: io.aiven.kafka.tieredstorage.transform, security.RsaEncryptionProvider, security.AesEncryptionProvider; RFC 8017
section 7.1.2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from logcore.errors import CorruptChunkError, CorruptRecordError, LogError, SegmentKeyError
from logcore.records.compression import ZSTD_MAX_WINDOW, ZSTD_RATIO, Codec, decompress
from logcore.remote.chunked.segment_manifest import ENCRYPTION_BYTES, SegmentChunk, SegmentEncryption, SegmentManifest

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

IV_BYTES = 12
_AES_KEY_BYTES = (16, 24, 32)
_BLOCK_HEADER_BYTES, _CHECKSUM_BYTES = 3, 4
_FEWEST_BLOCKS, _LEAST_BLOCK = 16, 1024
"""A frame with more blocks, or smaller ones on average, is read piece by piece. The plugin's have 128 KiB."""


class ChunkCipher:
    """Decrypts the chunks of one segment; several threads may use it. It has no representation as text.

    Args:
        key: The AES key.
        aad: Bytes that authenticate every chunk.
    """

    __slots__ = ("_aad", "_aes")

    def __init__(self, key: bytes, aad: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._aes, self._aad = AESGCM(key), aad

    def decrypt(self, content: bytes | memoryview, what: str) -> bytes:
        """Decrypt a chunk or an index.

        Args:
            content: IV, ciphertext and tag.
            what: What it is, for errors.

        Raises:
            CorruptChunkError: The bytes were changed, or encrypted with another key.
        """
        from cryptography.exceptions import InvalidTag

        if len(content) < ENCRYPTION_BYTES:
            raise CorruptChunkError(f"{what} has {len(content)} bytes, less than an encrypted one")
        try:
            with memoryview(content) as view:
                plain: bytes = self._aes.decrypt(view[:IV_BYTES], view[IV_BYTES:], self._aad)
            return plain
        except InvalidTag as error:
            message = f"{what} does not decrypt: it was changed, or another key encrypted it"
            raise CorruptChunkError(message, advice="Compare it with another copy of the object.") from error


@dataclass(frozen=True, slots=True, repr=False)
class PrivateKeys:
    """RSA private keys by the ID that manifests have for them. It has no representation as text."""

    _keys: Mapping[str, RSAPrivateKey] = field(default_factory=dict)

    def cipher(self, encryption: SegmentEncryption) -> ChunkCipher:
        """Decrypt the AES key of a segment.

        Raises:
            LogError: There is no key of this ID.
            SegmentKeyError: It does not decrypt the key of the segment. Nothing here shows whether the key is of
                another pair or the manifest was changed: OAEP fails in the same way.
            CorruptChunkError: What it decrypts is no AES key.
        """
        key = self._keys.get(encryption.key_id)
        if key is None:
            raise LogError(
                f"the segment is encrypted with the RSA key {encryption.key_id!r}, which was not given",
                advice="Name the PEM file of its private key in LOGLAKE_REMOTE_KEYS, as ID=FILE.",
            )
        secret = _unpadded(_rsa(key, encryption.wrapped_key), key.key_size // 8)
        if secret is None:
            size, expected = len(encryption.wrapped_key), key.key_size // 8
            sizes = "" if size == expected else f" (dataKey has {size} bytes, and the private key is for {expected})"
            raise SegmentKeyError(
                f"the RSA key {encryption.key_id!r} does not decrypt the key of the segment: the private key is of "
                f"another pair, or dataKey in the manifest was changed{sizes}",
                advice="Check that the file has the private key of this ID. If it decrypts other segments, compare the "
                "manifest with another copy.",
            )
        if len(secret) not in _AES_KEY_BYTES:
            raise CorruptChunkError(f"the key of the segment has {len(secret)} bytes, which is no AES key")
        return ChunkCipher(secret, encryption.aad)


def read_private_key(content: bytes) -> RSAPrivateKey:
    """Read an RSA private key from PEM.

    Raises:
        LogError: The bytes are not such a key. The message says nothing about them.
    """
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError as error:
        advice = "Install the wheel with its extra `remote`, or install cryptography itself."
        raise LogError("the package cryptography is not installed here", advice=advice) from error
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        message = "it is not a private key in PEM without a password"
        raise LogError(message, advice="Name the private key, for instance PKCS 8 in PEM.") from error
    if not isinstance(key, RSAPrivateKey):
        raise LogError("it is not an RSA key, and the plugin uses no others")
    return key


def _rsa(key: RSAPrivateKey, wrapped: bytes) -> bytes:
    """The padded message in an encrypted one, as long as the modulus. Empty if it is none of this key."""
    numbers = key.private_numbers()
    size, value = int(key.key_size) // 8, int.from_bytes(wrapped, "big")
    if len(wrapped) != size or value >= numbers.public_numbers.n:
        return b""
    by_p, by_q = pow(value, numbers.dmp1, numbers.p), pow(value, numbers.dmq1, numbers.q)
    message: int = by_q + (by_p - by_q) * numbers.iqmp % numbers.p * numbers.q
    return message.to_bytes(size, "big")


def _unpadded(padded: bytes, size: int) -> bytes | None:
    """The message in an OAEP padding (RFC 8017, 7.1.2, step 3); None if the padding is not valid."""
    digest = hashlib.sha3_512().digest_size
    if len(padded) != size or size < 2 * digest + 2 or padded[0]:
        return None
    masked_seed, masked = padded[1 : 1 + digest], padded[1 + digest :]
    seed = _xor(masked_seed, _mask(masked, digest))
    block = _xor(masked, _mask(seed, len(masked)))
    rest = block[digest:].lstrip(b"\0")
    if block[:digest] != hashlib.sha3_512(b"").digest() or rest[:1] != b"\x01":
        return None
    return rest[1:]


def _mask(seed: bytes, size: int) -> bytes:
    """MGF1 (RFC 8017, appendix B.2.1)."""
    digests = -(-size // hashlib.sha3_512().digest_size)
    return b"".join(hashlib.sha3_512(seed + number.to_bytes(4, "big")).digest() for number in range(digests))[:size]


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def fill_from_chunk(
    target: memoryview,
    content: bytes | memoryview,
    chunk: SegmentChunk,
    manifest: SegmentManifest,
    cipher: ChunkCipher | None,
) -> None:
    """Write bytes of the segment into memory, from a stored chunk.

    Args:
        target: Gets the bytes; as long as the manifest says of the chunk.
        content: The stored chunk.
        chunk: Its place and sizes.
        manifest: The segment's manifest.
        cipher: For encrypted segments.

    Raises:
        CorruptChunkError: The chunk cannot be decrypted or decompressed, or gives another number of bytes. None of its
            bytes is in the target then.
    """
    what = f"chunk {chunk.number}"
    if len(content) != chunk.stored_size:
        message = f"{what} has {len(content)} bytes of {chunk.stored_size}"
        raise CorruptChunkError(message, position=chunk.stored_position)
    try:
        if manifest.encryption is not None:
            if cipher is None:
                raise ValueError("an encrypted segment needs its cipher")
            content = cipher.decrypt(content, what)
        if manifest.is_compressed:
            if _decompressed_into(target, content):
                return
            content = decompress(Codec.ZSTD, content, chunk.size)
    except CorruptRecordError as error:
        message = f"{what} cannot be decompressed: {error.message}"
        raise CorruptChunkError(message, position=chunk.stored_position) from error
    except CorruptChunkError as error:
        raise error.at(position=chunk.stored_position) from error.__cause__
    if len(content) != chunk.size:
        message = f"{what} gives {len(content)} bytes of the segment, the manifest says {chunk.size}"
        raise CorruptChunkError(message, position=chunk.stored_position)
    target[:] = content


def _decompressed_into(target: memoryview, content: bytes | memoryview) -> bool:
    """Decompress a chunk in one step into memory; False, with zeros there, if that is not possible.

    It is possible if the chunk is one frame that declares the size of the target. Then the library needs no memory of
    its own for the output, and writes no byte beyond the target.
    """
    import zstandard

    try:
        frame = zstandard.get_frame_parameters(content)
        is_usual = frame.content_size == len(target) and frame.window_size <= ZSTD_MAX_WINDOW
        if not is_usual or not 0 < len(target) <= len(content) * ZSTD_RATIO:
            return False
        if not _is_one_frame(content, frame.has_checksum, most_blocks=_FEWEST_BLOCKS + len(target) // _LEAST_BLOCK):
            return False
        with zstandard.ZstdDecompressor().stream_reader(content) as reader:
            if reader.readinto(target) == len(target):
                return True
    except zstandard.ZstdError:
        pass  # the caller meets the error again, or there are more frames
    target[:] = bytes(len(target))
    return False


def _is_one_frame(content: bytes | memoryview, has_checksum: bool, most_blocks: int) -> bool:
    """Whether a zstd frame of at most so many blocks fills the bytes (RFC 8878, section 3.1.1.2)."""
    import zstandard

    at = zstandard.frame_header_size(content)
    for _ in range(most_blocks):
        header = int.from_bytes(content[at : at + _BLOCK_HEADER_BYTES], "little")
        is_repeated = header >> 1 & 3 == 1
        at += _BLOCK_HEADER_BYTES + (1 if is_repeated else header >> 3)
        if header & 1:  # the last block
            return at + (_CHECKSUM_BYTES if has_checksum else 0) == len(content)
        if at >= len(content):
            return False
    return False


def index_contents(content: bytes, what: str, cipher: ChunkCipher | None) -> bytes:
    """Bytes of an index of a segment.

    Args:
        content: The stored index, cut out of `.indexes`.
        what: Which one, for errors.
        cipher: None without encryption.

    Raises:
        CorruptChunkError: It cannot be decrypted.
    """
    return content if cipher is None or not content else cipher.decrypt(content, what)
