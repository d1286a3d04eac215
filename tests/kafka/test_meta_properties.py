"""`meta.properties` as Java's own class `java.util.Properties` loads it: generated files with every kind of escape."""

from __future__ import annotations

import random
import struct
import subprocess
from pathlib import Path

import pytest

from logcore.errors import CorruptIndexError
from logcore.segments.side_files.checkpoints import parse_meta_properties
from tests.kafka import distribution

SEED = 20_261_128
ORACLE = Path(__file__).with_name("java-properties") / "Loaded.java"
PIECES = [
    *("a", "Zz9", "_-", "+", "/", "=", ":", "#", "!", " ", "\t", "\f", "\\", "\\\\", "\\=", "\\:", "\\ ", "\\#", "\\n"),
    *(
        "\\t",
        "\\q",
        "\\r",
        "\\f",
        "\\u003d",
        "\\u00e9",
        "\\ud83d\\udc0d",
        "\\u20ac",
        "\\u12",
        "\\uzzzz",
        "\xe9",
        "\xff",
    ),
    *("\\\n", "\\\r\n", "\\\r", "\\\n   ", "\\\n#", "\\\n\n", "\x85", "\x00", "'", '"', "\x1b"),
]
ENDS = ["\n", "\r\n", "\r", "\n\n", "\n#comment \\\n", "\n ! comment\n", "\n\\\n"]


def content(chance: random.Random) -> bytes:
    """A file whose first line is a version that we read, with ids and lines that no person would write."""
    lines = ["version=1"]
    for name in ("cluster.id", *chance.choices(["node.id", "a\\ b", "", "x", "#y"], k=chance.randrange(4))):
        value = "".join(chance.choices(PIECES, k=chance.randrange(12)))
        lines.append(name + chance.choice(["=", ":", " ", " = ", "\t:\f", "==", ""]) + value)
    chance.shuffle(lines)
    text = "".join(line + chance.choice(ENDS) for line in lines)
    return (text if chance.random() < 0.8 else text.rstrip("\r\n")).encode("latin-1")


def loaded_by_java(contents: list[bytes]) -> list[dict[str, str] | None]:
    """What Java loads; None: it refuses the file."""
    given = struct.pack(">i", len(contents)) + b"".join(struct.pack(">i", len(each)) + each for each in contents)
    try:
        java = distribution.jdk()
    except distribution.Unavailable as missing:
        pytest.skip(f"Java cannot be asked here: {missing}")
    ran = subprocess.run([str(java), str(ORACLE)], input=given, capture_output=True, check=True)
    return [None if line == "refused" else pairs(line) for line in ran.stdout.decode().splitlines()]


def pairs(line: str) -> dict[str, str]:
    found = (pair.split(":") for pair in line.split())
    return {text_of(name): text_of(value) for name, value in found}


def text_of(units: str) -> str:
    return bytes.fromhex(units).decode("utf-16-be", "replace")


def ours(content: bytes) -> dict[str, str] | None:
    try:
        return parse_meta_properties(content)
    except CorruptIndexError:
        return None


@pytest.mark.parametrize("count", [1000])
def test_meta_properties_are_what_java_loads(count: int) -> None:
    chance = random.Random(SEED)
    contents = [content(chance) for _ in range(count)]
    said = loaded_by_java(contents)
    assert len(said) == count
    assert sum(each is None for each in said) > count // 20
    for each, by_java in zip(contents, said, strict=True):
        # Of versions we read 0 and 1, as Kafka does. A line before may take the version's line in.
        known = by_java is not None and by_java.get("version") in ("0", "1")
        assert ours(each) == (by_java if known else None), each
