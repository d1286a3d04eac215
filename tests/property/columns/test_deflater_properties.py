"""The bytes of our deflate are zlib's, whatever is deflated, and in whatever state the last stream left the tables."""

from __future__ import annotations

import random
import tarfile
import zlib
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logcore.columns.engines import Engine, available
from tests.conftest import REPOSITORY

if Engine.KERNELS not in available():
    pytest.skip("the kernels cannot be compiled on this machine", allow_module_level=True)

from logcore.columns.deflater import Deflater
from logcore.columns.kernels import deflate_slots
from logcore.columns.kernels.library import library

GZIP = bytes.fromhex("1f8b08000000000000ff")
FARTHEST = 32_768 - 262
WORDS = [b"click", b"view", b"cart", b"buy", b"search", b'":{"', b"0", b"1", b"refund"]

# Around a block of symbols, the farthest match, the first window, its end, and the next one's.
EDGES = [
    *(0, 1, 2, 3, 4, 7, 8, 9, 261, 262, 263, 16_382, 16_383, 16_384, FARTHEST - 1, FARTHEST, FARTHEST + 1),
    *(32_767, 32_768, 32_769, 65_273, 65_274, 65_275, 65_276, 65_400, 65_535, 65_536, 65_537, 98_041, 98_042, 98_043),
    *(131_072, 200_000),
]


@pytest.fixture(scope="module")
def deflater() -> Deflater:
    return Deflater(library())


def of_zlib(plain: bytes) -> bytes:
    stream = zlib.compressobj(6, zlib.DEFLATED, -15, 8)
    return stream.compress(plain) + stream.flush()


def noise(chance: random.Random, size: int) -> bytes:
    return chance.randbytes(size)


def text(chance: random.Random, size: int) -> bytes:
    return b" ".join(chance.choices(WORDS, k=size // 2 + 1))[:size]


def small_records(chance: random.Random, size: int) -> bytes:
    made = bytearray()
    while len(made) < size:
        filler = chance.randbytes(chance.randrange(20)).hex().encode()
        made += b'k%06d{"n":%09d,"e":"%s%s"}' % (chance.randrange(10**5), len(made), chance.choice(WORDS), filler)
    return bytes(made[:size])


def runs(chance: random.Random, size: int) -> bytes:
    made = bytearray()
    while len(made) < size:
        made += chance.randbytes(chance.randrange(1, 4)) * chance.randrange(1, 2000)
    return bytes(made[:size])


def two_letters(chance: random.Random, size: int) -> bytes:
    return bytes(chance.choices(b"ab", k=size))


def rarer_and_rarer(chance: random.Random, size: int) -> bytes:
    """Bytes whose codes would be longer than deflate's may be."""
    counts = [1, 1]
    while sum(counts) < size:
        counts.append(counts[-1] + counts[-2])
    made = bytearray(b"".join(bytes([each]) * count for each, count in enumerate(counts)))[:size]
    chance.shuffle(made)
    return bytes(made)


def repeated_from_afar(chance: random.Random, size: int) -> bytes:
    """At the farthest distance there is, one byte closer, and one too far; with some bytes changed."""
    period = chance.choice([FARTHEST - 1, FARTHEST, FARTHEST + 1, 4096, 4097, 32_768])
    made = bytearray((chance.randbytes(period) * (size // period + 1))[:size])
    for _ in range(size // 300):
        made[chance.randrange(size)] = chance.randrange(256)
    return bytes(made)


def mixed(chance: random.Random, size: int) -> bytes:
    made = b""
    while len(made) < size:
        made += chance.choice(KINDS[:-1])(chance, chance.randrange(1, 30_000))
    return made[:size]


KINDS: list[Callable[[random.Random, int], bytes]] = [
    *(noise, text, small_records, runs, two_letters, rarer_and_rarer, repeated_from_afar),
    mixed,
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_of_bytes_is_deflated_as_by_zlib_at_every_edge(
    kind: Callable[[random.Random, int], bytes], deflater: Deflater
) -> None:
    chance = random.Random(3)
    for size in [*EDGES, 1_500_000]:
        plain = kind(chance, size)
        assert deflater.deflate(plain, 2 * size + 1000) == of_zlib(plain), size


def test_sizes_and_kinds_at_random_give_the_bytes_of_zlib(deflater: Deflater) -> None:
    chance = random.Random(11)
    for number in range(300):
        kind, size = chance.choice(KINDS), int(2 ** chance.uniform(0, 17.5))
        plain = kind(chance, size)
        assert deflater.deflate(plain, 2 * size + 1000) == of_zlib(plain), (number, kind, size)


@given(parts=st.lists(st.tuples(st.binary(max_size=12), st.integers(0, 300)), max_size=60))
def test_pieces_that_come_back_give_the_bytes_of_zlib(parts: list[tuple[bytes, int]], deflater: Deflater) -> None:
    plain = b"".join(piece * (times % 7) + piece[: times % 3] for piece, times in parts * 3)
    assert deflater.deflate(plain, 2 * len(plain) + 1000) == of_zlib(plain)


def test_batches_of_a_broker_deflate_to_what_they_were(deflater: Deflater) -> None:
    count = 0
    for plain, stored in gzip_members():
        assert deflater.deflate(plain, 2 * len(plain) + 100) == stored
        count += 1
    assert count > 5


def gzip_members() -> Iterator[tuple[bytes, bytes]]:
    """Content and deflate stream of every gzip member that Java wrote into a sample's segment."""
    with tarfile.open(REPOSITORY / "samples" / "codecs-v2-4.3.1.tar.xz") as samples:
        for item in samples:
            stream = samples.extractfile(item) if item.name.endswith(".log") else None
            data = b"" if stream is None else stream.read()
            at = data.find(GZIP)
            while at >= 0:
                member = zlib.decompressobj(31)
                plain = member.decompress(data[at:])
                behind = len(data) - len(member.unused_data)
                yield plain, data[at + len(GZIP) : behind - 8]
                at = data.find(GZIP, behind)


@pytest.mark.parametrize("kind", [noise, text, two_letters], ids=lambda kind: kind.__name__)
def test_a_stream_is_whole_or_is_refused_for_want_of_room(
    kind: Callable[[random.Random, int], bytes], deflater: Deflater
) -> None:
    plain = kind(random.Random(4), 40_000)
    whole = of_zlib(plain)
    enough = len(whole) + deflate_slots.WASTE + 8
    assert deflater.deflate(plain, enough) == whole
    for room in [0, 1, 8, 100, len(whole) // 2, len(whole) - 1]:
        assert deflater.deflate(plain, room) is None


def test_another_zlib_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from logcore.columns import deflater as module

    assert Deflater.like_zlib(library()) is not None
    make = zlib.compressobj
    monkeypatch.setattr(zlib, "compressobj", lambda _, *rest: make(5, *rest))
    module._has_zlibs_bytes.cache_clear()
    try:
        assert Deflater.like_zlib(library()) is None
    finally:
        module._has_zlibs_bytes.cache_clear()
