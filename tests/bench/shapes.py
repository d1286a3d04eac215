"""What the records of the benchmark look like: keys, values and headers of each shape, from a seeded generator.

    small     13 bytes of key, about 85 of JSON
    medium    the same keys, about 728 bytes of JSON with random hexadecimal in it
    headers   small, with two headers
    10k 100k  the same keys, values of about 10 and 100 KB, half text that repeats and half random

Keys are drawn with Zipf's law from a million; 1 % are null, and 1 % of the values are (tombstones).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tests.bench.blocks import Block, Mask, Numbers, beside, chosen, constant, decimal, hexadecimal

_WORDS = tuple(
    b"click view cart buy search login logout scroll hover share like follow order refund ship return pay open close"
    b" error".split()
)
_AGENTS = tuple(
    b"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/%d.0.%d.%d Safari/537.36"
    % (90 + each % 41, 1000 + each * 29, 1 + each)
    for each in range(200)
)
_KEYS = 1_000_000
_NULL_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class Rows:
    """Records that are still to be put into batches."""

    keys: Block
    values: Block
    has_key: Mask
    has_value: Mask
    steps_ms: Numbers
    """Milliseconds from the record before."""
    headers: Sequence[tuple[bytes, Block]]
    """Name and values; every record has all of them."""

    def __len__(self) -> int:
        return len(self.has_key)


Values = Callable[[np.random.Generator, int, int], Block]


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of record."""

    values: Values
    row_bytes: int
    """About how many bytes a record takes, for the size of the pieces it is made in."""
    has_headers: bool = False

    def rows(self, random: np.random.Generator, first: int, count: int) -> Rows:
        """The records from number `first` on; as many, drawn anew at each call."""
        keys = beside([constant(b"user-", count), decimal(np.asarray(random.zipf(1.3, count) % _KEYS), 8, zeros=True)])
        return Rows(
            keys=keys,
            values=self.values(random, first, count),
            has_key=random.random(count) >= _NULL_SHARE,
            has_value=random.random(count) >= _NULL_SHARE,
            steps_ms=random.integers(0, 3, count),
            headers=_headers(random, count) if self.has_headers else (),
        )


def _small(random: np.random.Generator, first: int, count: int) -> Block:
    return beside(
        [
            constant(b'{"id":', count),
            decimal(np.arange(1_000_000 + first, 1_000_000 + first + count), 8),
            constant(b',"uid":', count),
            decimal(random.integers(0, 1_000_000, count), 6),
            constant(b',"ev":"', count),
            chosen(_WORDS, random.integers(0, len(_WORDS), count)),
            constant(b'","page":"/p/', count),
            decimal((random.random(count) * random.random(count) * 5000).astype(np.int64), 4),
            constant(b'","v":', count),
            decimal(random.integers(0, 100, count), 2),
            constant(b".", count),
            decimal(random.integers(0, 10_000, count), 4, zeros=True),
            constant(b',"s":"', count),
            hexadecimal(random, count, 8),
            constant(b'"}', count),
        ]
    )


def _medium(random: np.random.Generator, first: int, count: int) -> Block:
    items = []
    for number in range(5):
        items += [
            constant((b"," if number else b"") + b'{"sku":"SKU-', count),
            decimal(random.integers(0, 10_000_000, count), 7, zeros=True),
            constant(b'","qty":', count),
            decimal(random.integers(1, 6, count), 1),
            constant(b',"price":', count),
            decimal(random.integers(0, 500, count), 3),
            constant(b".", count),
            decimal(random.integers(0, 100, count), 2, zeros=True),
            constant(b"}", count),
        ]
    tags = []
    for number in range(8):
        tags += [constant(b'","' if number else b'"', count), chosen(_WORDS, random.integers(0, len(_WORDS), count))]
    return beside(
        [
            constant(b'{"id":', count),
            decimal(np.arange(1_000_000 + first, 1_000_000 + first + count), 8),
            constant(b',"uid":', count),
            decimal(random.integers(0, 1_000_000, count), 6),
            constant(b',"ua":"', count),
            chosen(_AGENTS, random.integers(0, len(_AGENTS), count)),
            constant(b'","session":"', count),
            hexadecimal(random, count, 32),
            constant(b'","ref":"catalogue/of-things/p/', count),
            decimal(random.integers(0, 5000, count), 4),
            constant(b"?utm=", count),
            hexadecimal(random, count, 8),
            constant(b'","geo":{"lat":', count),
            decimal(random.integers(0, 90, count), 2),
            constant(b".", count),
            decimal(random.integers(0, 1_000_000, count), 6, zeros=True),
            constant(b',"lon":', count),
            decimal(random.integers(0, 180, count), 3),
            constant(b".", count),
            decimal(random.integers(0, 1_000_000, count), 6, zeros=True),
            constant(b'},"items":[', count),
            *items,
            constant(b'],"tags":[', count),
            *tags,
            constant(b'"],"trace":"', count),
            hexadecimal(random, count, 166),
            constant(b'"}', count),
        ]
    )


def _large(nbytes: int) -> Values:
    text = b" ".join(_WORDS)
    half = (text * (nbytes // 2 // len(text) + 1))[: nbytes // 2]

    def values(random: np.random.Generator, first: int, count: int) -> Block:
        return beside(
            [
                decimal(np.arange(first, first + count), 8),
                constant(half, count),
                hexadecimal(random, count, nbytes // 4 * 2),
            ]
        )

    return values


def _headers(random: np.random.Generator, count: int) -> Sequence[tuple[bytes, Block]]:
    trace = beside(
        [
            constant(b"00-", count),
            hexadecimal(random, count, 32),
            constant(b"-", count),
            hexadecimal(random, count, 16),
            constant(b"-01", count),
        ]
    )
    return ((b"traceparent", trace), (b"content-type", constant(b"application/json", count)))


SHAPES = {
    "small": Shape(_small, 110),
    "medium": Shape(_medium, 760),
    "headers": Shape(_small, 210, has_headers=True),
    "10k": Shape(_large(10_000), 10_000),
    "100k": Shape(_large(100_000), 100_000),
}
