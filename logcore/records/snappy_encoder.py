"""Blocks of raw snappy: by the JVM's own library where it is at hand, which gives a broker's bytes, else by another.

What is loaded is called with no JVM around it, as `long rawCompress(env, class, source, size, target)`, so nothing may
reach it that it would throw for: an empty block, or a null address. It is believed once it has given the bytes that it
gives inside a broker for something that other encoders make other bytes of.

Spark's workers share an environment, so all have it or none. There is one right answer to the probe, so whoever has it
writes the same bytes, on every processor. Were one without it all the same, its batches would hold the same in other
bytes: a task writes whole segments with their indexes, named by what they hold, and of two attempts one is taken, so
that no file would mix the two; but an attempt that is made again elsewhere would not give the same bytes again.

Source: org.xerial.snappy.SnappyNative. Belongs here: one block. Streams of them are `compression`'s.
"""

from __future__ import annotations

import hashlib
from functools import cache

_SYMBOL = "Java_org_xerial_snappy_SnappyNative_rawCompress__JJJ"
_PROBE_SIZE = 4000
_PROBE_ANSWER = "4eb95caafd3f1364849495a6b108c43979f84506dfb131f91ffda2e19f8baaa3"
"""SHA-256 of what snappy-java 1.1.10.5, 1.1.10.7 and 1.1.10.8 make of the probe."""


def largest_block(size: int) -> int:
    """How much room the encoder needs for so many bytes."""
    return 32 + size + size // 6


@cache
def jvm_encoder() -> int:
    """Address of the JVM's encoder, looked for once per process; 0 where there is none that is to be believed."""
    import ctypes

    from logcore.storage.machine.snappy_library import load_snappy_java

    library = load_snappy_java()
    try:
        address = 0 if library is None else int(ctypes.cast(getattr(library, _SYMBOL), ctypes.c_void_p).value or 0)
    except AttributeError:
        return 0
    return address if address and is_the_brokers(address) else 0


def is_the_brokers(address: int) -> bool:
    """Whether the function there answers as the one inside a broker."""
    probe = b" ".join(b"%d" % (number * number) for number in range(_PROBE_SIZE))[:_PROBE_SIZE]
    return hashlib.sha256(_called(address, probe)).hexdigest() == _PROBE_ANSWER


def compressed_block(data: bytes) -> bytes:
    """One raw block, of a broker's bytes where `jvm_encoder` is there."""
    address = jvm_encoder()
    if address and data:
        return _called(address, data)
    import snappy

    return bytes(snappy.compress(data))


def _called(address: int, data: bytes) -> bytes:
    import ctypes

    kind = ctypes.CFUNCTYPE(
        ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p
    )
    room = ctypes.create_string_buffer(largest_block(len(data)))
    size = kind(address)(None, None, data, len(data), room)
    return ctypes.string_at(room, min(max(size, 0), len(room)))
