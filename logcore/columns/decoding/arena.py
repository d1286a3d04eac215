"""The target of decompression in the kernels: one buffer, used again for every table of batches.

The libraries' own functions are found in packages that are installed anyway, and called by address. If they are not
found, and for gzip and snappy, the packages' Python functions are called, one batch at a time.
"""

from __future__ import annotations

import ctypes
import importlib.util
import zlib
from functools import cache
from typing import Any

import numpy as np

from logcore.columns.kernels.call_frames import NOWHERE, Address, address_of
from logcore.errors import CorruptRecordError
from logcore.records.compression import XERIAL_HEADER, XERIAL_MAGIC, ZSTD_LEVEL, Codec, decompress

ARENA_BYTES = 2 << 20
"""Ordinary size: about the size of the second-level cache, and enough for a few large batches."""

_HELD_BYTES = 32 << 20
"""An arena that grew above this for one batch is freed afterwards."""


_GZIP_RATIO = 1032
"""The greatest expansion by deflate."""


_SNAPPY = int(Codec.SNAPPY)
_ZSTD_PARAMETERS = ((100, ZSTD_LEVEL), (200, 0), (201, 0))
"""compressionLevel, contentSizeFlag, checksumFlag."""
_Z_STREAM_BYTES = 112
"""Its size on a platform whose pointers and `long` have 64 bits; zlib itself refuses another size."""
_XERIAL_BYTES = len(XERIAL_HEADER)

ISAL, LZ4, ZSTD, ZLIB = "isal.igzip_lib", "lz4.block._block", "zstandard._cffi", "zlib"
"""Modules whose shared libraries have the functions below."""
CRC32 = ("crc32_gzip_refl",)
LZ4_DECODER, LZ4_ENCODER = ("LZ4_decompress_safe",), ("LZ4_compress_default",)
ZSTD_DECODER = ("ZSTD_createDCtx", "ZSTD_decompressDCtx")
ZSTD_ENCODER = ("ZSTD_createCCtx", "ZSTD_CCtx_setParameter", "ZSTD_compressStream2", "ZSTD_CCtx_reset")
GZIP_ENCODER = ("deflateInit2_", "deflateReset", "deflate")


class Arena:
    """A buffer that grows when one batch needs it."""

    def __init__(self) -> None:
        self.used = 0
        self._snappy, self._gzip = _snappy_decoder(), _gzip_decoder()
        self._hold(np.empty(2 * ARENA_BYTES, np.uint8))

    def _hold(self, memory: np.ndarray) -> None:
        self.bytes = memory
        self.address = address_of(memory)
        """Address of the first byte."""
        self.size = memory.size
        """Size in bytes."""

    def empty(self, needed: int = 0) -> None:
        """Remove the content, and provide room for `needed` bytes."""
        self.used = 0
        if needed > self.size or (self.size > _HELD_BYTES and needed <= _HELD_BYTES):
            self._hold(np.empty(max(needed, 2 * ARENA_BYTES), np.uint8))

    def add(self, codec: int, stored: memoryview, limit: int, magic: int, is_sound: int = 0) -> bool:
        """Decompress one batch after the present content; False if the stream is damaged or exceeds `limit`.

        Args:
            codec: The codec's number.
            stored: The compressed bytes.
            limit: Most output in bytes.
            magic: Format version of the batch.
            is_sound: Not 0 for a gzip member that any decoder may decode (`kernels.deflate`).
        """
        if codec == _SNAPPY and self._add_snappy(stored, limit):
            return True
        plain = self._gunzipped(stored, limit) if is_sound else None
        if plain is None:
            try:
                plain = decompress(codec, stored, limit, magic=magic)
            except CorruptRecordError:
                return False
        self.put(plain)
        return True

    def put(self, plain: bytes | memoryview) -> None:
        """Append bytes as they are."""
        size = len(plain)
        self._make_room(size)
        ctypes.memmove(self.address + self.used, bytes(plain), size)
        self.used += size

    def _gunzipped(self, stored: memoryview, limit: int) -> bytes | None:
        """Decompress a sound gzip member with isal; None if isal is missing or reports an error."""
        if self._gzip is None:
            return None
        make, flag, error = self._gzip
        stated = int.from_bytes(stored[-4:], "little")
        if stated > limit or stated > len(stored) * _GZIP_RATIO:
            return None
        member = make(flag=flag)
        try:
            plain: bytes = member.decompress(stored, stated + 1)
        except error:
            return None
        return plain if member.eof and len(plain) == stated and not member.unused_data else None

    def _make_room(self, needed: int) -> None:
        if self.used + needed > self.size:
            grown = np.empty(max(self.used + needed, 2 * self.size), np.uint8)
            grown[: self.used] = self.bytes[: self.used]
            self._hold(grown)

    def _add_snappy(self, stored: memoryview, limit: int) -> bool:
        """Decode a xerial stream or a raw block directly into the arena; False if the slow way must do it."""
        decode, target, used = self._snappy, self.bytes, self.used
        size, end = len(stored), min(self.used + limit, self.size)
        if decode is None:
            return False
        try:
            # The decoder refuses a block that declares more bytes than there is room for.
            if size < _XERIAL_BYTES or stored[:8] != XERIAL_MAGIC:
                used += decode(stored, target[used:end])
            else:
                at = _XERIAL_BYTES
                while at < size:
                    end_of_block = at + 4 + int.from_bytes(stored[at : at + 4], "big")
                    if size - at < 4 or end_of_block > size:
                        return False
                    used += decode(stored[at + 4 : end_of_block], target[used:end])
                    at = end_of_block
        except Exception:  # noqa: BLE001 - the package's own error type; the slow way reports the error
            return False
        self.used = used
        return True


@cache
def _snappy_decoder() -> Any:
    try:
        from cramjam import snappy
    except ImportError:
        return None
    return getattr(snappy, "decompress_raw_into", None)


@cache
def _gzip_decoder() -> tuple[Any, Any, Any] | None:
    try:
        from isal import igzip_lib
    except ImportError:
        return None
    return igzip_lib.IgzipDecompressor, igzip_lib.DECOMP_GZIP, igzip_lib.error


@cache
def crc32_function() -> Address:
    """Address of isal's CRC-32, several times as fast as tables; 0 if it is missing or not the expected function."""
    address = _function(ISAL, *CRC32)
    if not address:
        return NOWHERE
    kind = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_uint64)
    probe = bytes(range(256)) * 3
    return address if kind(address)(0, probe, len(probe)) == zlib.crc32(probe) else NOWHERE


def lz4_function() -> Address:
    """Address of LZ4_decompress_safe; 0 if it is not found."""
    return _function(LZ4, *LZ4_DECODER)


class ZstdState:
    """The context of ZSTD_decompressDCtx, and the function's address; both 0 if not found. For one thread at a time."""

    def __init__(self) -> None:
        create, self.function = (_function(ZSTD, name) for name in ZSTD_DECODER)
        self.state = Address(ctypes.CFUNCTYPE(ctypes.c_void_p)(create)() or 0) if self.function and create else NOWHERE
        if not self.state:
            self.function = NOWHERE

    def close(self) -> None:
        """Free the context."""
        free = _function(ZSTD, "ZSTD_freeDCtx")
        if self.state and free:
            ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p)(free)(self.state)
        self.state = self.function = NOWHERE


def lz4_encoder() -> Address:
    """Address of LZ4_compress_default; 0 if it is not found."""
    return _function(LZ4, *LZ4_ENCODER)


class ZstdEncoder:
    """The context of ZSTD_compressStream2, with the settings of `logcore.records.compression.compress`, and the
    addresses of the functions; all 0 if not found. For one thread at a time.
    """

    def __init__(self) -> None:
        create, set_parameter, self.function, self.reset = (_function(ZSTD, name) for name in ZSTD_ENCODER)
        self.state = NOWHERE
        if create and set_parameter and self.function and self.reset:
            self.state = Address(ctypes.CFUNCTYPE(ctypes.c_void_p)(create)() or 0)
            given = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)(set_parameter)
            # A valid result is the value that was set; errors are the highest numbers.
            if self.state and any(given(self.state, *each) > 1 << 31 for each in _ZSTD_PARAMETERS):
                self.close()
        if not self.state:
            self.function = self.reset = NOWHERE

    def close(self) -> None:
        """Free the context."""
        free = _function(ZSTD, "ZSTD_freeCCtx")
        if self.state and free:
            ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p)(free)(self.state)
        self.state = self.function = self.reset = NOWHERE


class GzipEncoder:
    """A z_stream for raw deflate, and the addresses of its functions; all 0 if not found. For one thread at a time.

    The zlib is that of Python's own module, with the settings of `logcore.records.compression.compress`.
    """

    def __init__(self) -> None:
        begin, self.reset, self.function = (_function(ZLIB, name) for name in GZIP_ENCODER)
        self._stream = ctypes.create_string_buffer(_Z_STREAM_BYTES)
        self.state = NOWHERE
        if begin and self.reset and self.function:
            kinds = [ctypes.c_void_p, *[ctypes.c_int] * 5, ctypes.c_char_p, ctypes.c_int]
            version, state = zlib.ZLIB_RUNTIME_VERSION.encode(), Address(ctypes.addressof(self._stream))
            given = -1, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, zlib.Z_DEFAULT_STRATEGY
            if ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(begin)(state, *given, version, _Z_STREAM_BYTES) == 0:
                self.state = state
        if not self.state:
            self.function = self.reset = NOWHERE

    def close(self) -> None:
        """Free the stream."""
        end = _function(ZLIB, "deflateEnd")
        if self.state and end:
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(end)(self.state)
        self.state = self.function = self.reset = NOWHERE


def has_gzip_decoder() -> bool:
    """Whether isal decodes gzip."""
    return _gzip_decoder() is not None


def has_snappy_decoder() -> bool:
    """Whether snappy is decoded directly into the arena."""
    return _snappy_decoder() is not None


@cache
def _loaded(module: str) -> ctypes.CDLL | None:
    try:
        found = importlib.util.find_spec(module)
        return None if found is None or found.origin is None else ctypes.CDLL(found.origin)
    except (ImportError, OSError, ValueError):
        return None


def _function(module: str, name: str) -> Address:
    library = _loaded(module)
    try:
        return Address(0 if library is None else ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0)
    except AttributeError:
        return NOWHERE
