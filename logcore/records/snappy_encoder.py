"""Blocks of raw snappy, in a broker's bytes where snappy-java's native library is given, else by python-snappy.

The library comes from the caller: `use_library` takes a function that loads it, which is called when a block is first
compressed. It is called with no JVM around it, as `long rawCompress(env, class, source, size, target)`. So it must get
nothing that it would throw for: an empty block, or a null address. It is used only if it gives the bytes of a broker
for a probe that other encoders compress to other bytes.

There is one right answer to the probe, so every process that has the library writes the same bytes, on every processor.
Spark's workers share an environment, so all have it or none. Were one without it, its batches would hold the same
records in other bytes: no file would mix the two, because a task writes whole segments with their indexes, and of two
attempts one is taken. But an attempt that runs again elsewhere would not give the same bytes again.

Source: org.xerial.snappy.SnappyNative. Belongs here: one block. Streams of them are `compression`'s.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

LibraryLoader = Callable[[], "ctypes.CDLL | None"]
"""Loads snappy-java's native library; None where there is none for this machine."""

_LOG = logging.getLogger(__name__)
_SYMBOL = "Java_org_xerial_snappy_SnappyNative_rawCompress__JJJ"
_PROBE_SIZE = 4000
_PROBE_ANSWER = "4eb95caafd3f1364849495a6b108c43979f84506dfb131f91ffda2e19f8baaa3"
"""SHA-256 of what snappy-java 1.1.10.5, 1.1.10.7 and 1.1.10.8 make of the probe."""
_WITHOUT_LIBRARY = (
    "Snappy batches are compressed to other bytes than a broker's, with the same records: the library of snappy-java "
    "is missing, or does not run on this machine. PySpark contains it. Install Loglake's wheel with the extra `lake`, "
    "or run `make setup` in a clone of the repository."
)

_loader: LibraryLoader | None = None


def use_library(load: LibraryLoader | None) -> None:
    """Take snappy-java's native library from a function, in this process and from now on.

    Args:
        load: called once, when something is first compressed; None to use no library.
    """
    global _loader
    if load is not _loader:
        _loader = load
        jvm_encoder.cache_clear()
        _warn_once.cache_clear()


def largest_block(size: int) -> int:
    """How much room the encoder needs for so many bytes."""
    return 32 + size + size // 6


@cache
def jvm_encoder() -> int:
    """Address of snappy-java's encoder, found once per process; 0 without a library that passes the probe."""
    library = None if _loader is None else _loader()
    if library is None:
        return 0
    import ctypes

    try:
        address = int(ctypes.cast(getattr(library, _SYMBOL), ctypes.c_void_p).value or 0)
    except AttributeError:
        return 0
    return address if address and is_the_brokers(address) else 0


def is_the_brokers(address: int) -> bool:
    """Whether the function there answers as the one inside a broker."""
    probe = b" ".join(b"%d" % (number * number) for number in range(_PROBE_SIZE))[:_PROBE_SIZE]
    return hashlib.sha256(_called(address, probe)).hexdigest() == _PROBE_ANSWER


def compressed_block(data: bytes) -> bytes:
    """One raw block, in a broker's bytes where `jvm_encoder` finds one. Without it, one warning per process says so."""
    address = jvm_encoder()
    if address and data:
        return _called(address, data)
    if not address:
        _warn_once()
    import snappy

    return bytes(snappy.compress(data))


@cache
def _warn_once() -> None:
    _LOG.warning(_WITHOUT_LIBRARY)


def _called(address: int, data: bytes) -> bytes:
    import ctypes

    kind = ctypes.CFUNCTYPE(
        ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p
    )
    room = ctypes.create_string_buffer(largest_block(len(data)))
    size = kind(address)(None, None, data, len(data), room)
    return ctypes.string_at(room, min(max(size, 0), len(room)))
