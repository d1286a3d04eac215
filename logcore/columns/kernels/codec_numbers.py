"""The codecs of `logcore.records.compression.CODECS` as plain integers, for the kernels.

Kernels are compiled with these values, so `VALUES` is part of the compiled code's name in the cache.
"""

from logcore.records.compression import CODECS, Codec
from logcore.records.model import CODEC_MASK, MAGIC_V2

MASK = CODEC_MASK
"""The bits of a batch's attributes that contain the codec."""
NUMBERS = MASK + 1
"""Number of slots, one for each codec and each reserved number."""
NONE = int(Codec.NONE)
GZIP = int(Codec.GZIP)
SNAPPY = int(Codec.SNAPPY)
LZ4 = int(Codec.LZ4)
ZSTD = int(Codec.ZSTD)


def _bits(magic: int) -> int:
    return sum(1 << codec for codec in CODECS if codec.is_allowed(magic))


OF_MESSAGES = _bits(0)
"""A bit for each codec of formats v0 and v1; both have the same codecs."""
OF_BATCHES = _bits(MAGIC_V2)
"""A bit for each codec of format v2."""

VALUES = f"codecs {MASK} {NONE} {GZIP} {SNAPPY} {LZ4} {ZSTD} {OF_MESSAGES} {OF_BATCHES}\n"
