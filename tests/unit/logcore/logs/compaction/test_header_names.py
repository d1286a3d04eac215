"""Names of record headers as Java reads and writes them. The right sides were printed by a JVM (17)."""

from __future__ import annotations

import pytest

from logcore.logs.compaction.retained_batch import rewritten, rewritten_name

R = "\N{REPLACEMENT CHARACTER}".encode()


@pytest.mark.parametrize("name", ["", "trace", "grün", "日本", "\U0001f40d", "\x00"])
def test_text_stays_as_it_is(name: str):
    assert rewritten_name(name.encode()) == name.encode()


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("ff", R),
        ("8080", R * 2),
        ("c080", R * 2),
        ("c2", R),
        ("c241", R + b"A"),
        ("eda080", R),  # a surrogate is one mistake, though none of its bytes may stand so
        ("e08080", R * 3),
        ("e0a0", R),  # cut off by the end: one for all that is left
        ("e0a041", R + b"A"),
        ("efbf", R),
        ("f09080", R),
        ("f0908041", R + b"A"),
        ("f0808080", R * 4),
        ("f4908080", R * 4),
        ("f5808080", R * 4),
        ("f890", R * 2),
        ("f0", R),
        ("41f090", b"A" + R),
    ],
)
def test_each_malformed_sequence_is_replaced_where_java_ends_it(name: str, written: bytes):
    assert rewritten_name(bytes.fromhex(name)) == written


def test_values_and_order_stay():
    assert rewritten(((b"a", b"\xff"), (b"\xff", None), (b"a", b""))) == ((b"a", b"\xff"), (R, None), (b"a", b""))
