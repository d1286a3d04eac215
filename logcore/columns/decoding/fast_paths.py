"""Which fast functions of the codec libraries this process can call, by codec.

A library without them still works: `logcore.columns.decoding.arena` then calls its Python functions, one batch at a
time. So nothing but speed shows that a wheel hides a function, and this module finds out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from logcore.columns.decoding import arena
from logcore.records.compression import Codec


@dataclass(frozen=True, slots=True)
class FastPath:
    """The fast functions of one codec or checksum, in one package.

    Attributes:
        codec: A codec of Kafka, or `crc32`.
        package: The distribution that has the functions.
        functions: Their names.
        hidden: Those that are not found.
        is_complete: Whether the kernels use the functions: all are found, and give the expected answers.
        instead: What happens without them.
    """

    codec: str
    package: str
    functions: tuple[str, ...]
    hidden: tuple[str, ...]
    is_complete: bool
    instead: str


_BY_BATCH = "each batch is {} by a call of the package instead"
_DECODED, _ENCODED = _BY_BATCH.format("decompressed"), _BY_BATCH.format("compressed")


def fast_paths() -> Iterator[FastPath]:
    """Find the fast functions of every codec."""
    gzip, snappy, lz4, zstd = (each.kafka_name for each in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD))
    yield _path("crc32", arena.ISAL, arena.CRC32, _finds(arena.crc32_function), "checksums come from tables")
    yield _path(lz4, arena.LZ4, arena.LZ4_DECODER, _finds(arena.lz4_function), _DECODED)
    yield _path(lz4, arena.LZ4, arena.LZ4_ENCODER, _finds(arena.lz4_encoder), _ENCODED)
    yield _path(zstd, arena.ZSTD, arena.ZSTD_DECODER, _opens(arena.ZstdState), _DECODED)
    yield _path(zstd, arena.ZSTD, arena.ZSTD_ENCODER, _opens(arena.ZstdEncoder), _ENCODED)
    yield _python_path(gzip, "isal", "IgzipDecompressor", arena.has_gzip_decoder(), "zlib decompresses instead")
    yield _path(gzip, arena.ZLIB, arena.GZIP_ENCODER, _opens(arena.GzipEncoder), _ENCODED)
    yield _python_path(snappy, "cramjam", "decompress_raw_into", arena.has_snappy_decoder(), _DECODED)


def _path(codec: str, module: str, functions: tuple[str, ...], is_complete: bool, instead: str) -> FastPath:
    package = module.partition(".")[0]
    hidden = tuple(name for name in functions if not arena.finds(module, name))
    return FastPath(codec, package, functions, hidden, is_complete, instead)


def _python_path(codec: str, package: str, function: str, is_found: bool, instead: str) -> FastPath:
    return FastPath(codec, package, (function,), () if is_found else (function,), is_found, instead)


def _finds(function: Callable[[], object]) -> bool:
    return bool(function())


def _opens(kind: type[arena.ZstdState] | type[arena.ZstdEncoder] | type[arena.GzipEncoder]) -> bool:
    opened = kind()
    is_open = bool(opened.state)
    opened.close()
    return is_open
